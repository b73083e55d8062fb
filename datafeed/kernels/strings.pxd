"""Make lists of bytes objects, their memory filled without the GIL."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from datafeed.kernels.headers cimport df_fill_each, df_spec, df_span


cdef inline int set_blank(list strings, Py_ssize_t i, Py_ssize_t nbytes, uint8_t **at) except -1:
    # Memory that nobody else sees yet: it may be written until the list is handed out.
    piece = PyBytes_FromStringAndSize(NULL, nbytes)
    at[0] = <uint8_t *>PyBytes_AS_STRING(piece)
    Py_INCREF(piece)
    PyList_SET_ITEM(strings, i, piece)
    return 0


cdef inline list spans_to_list(const df_spec *spec, const df_span *spans, Py_ssize_t n, uint8_t **at):
    cdef Py_ssize_t i
    cdef list strings = PyList_New(n)
    for i in range(n):
        set_blank(strings, i, <Py_ssize_t>spans[i].bytes, &at[i])
    with nogil:
        df_fill_each(spec, spans, <uint64_t>n, at)
    return strings


cdef inline list cut_to_list(const uint8_t *p, const int64_t *offsets, Py_ssize_t n, uint8_t **at):
    cdef Py_ssize_t i
    cdef list strings = PyList_New(n)
    for i in range(n):
        set_blank(strings, i, <Py_ssize_t>(offsets[i + 1] - offsets[i]), &at[i])
    with nogil:
        for i in range(n):
            memcpy(at[i], p + offsets[i], <size_t>(offsets[i + 1] - offsets[i]))
    return strings

"""Hold arrays that come from Python against what the kernels take."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t

from datafeed.kernels.headers cimport DF_FIXED, DF_LIST, df_column, df_spec
from datafeed.kernels.reasons cimport misfit


cdef inline void *address_of(object array, int flags) except? NULL:
    # Valid while the array lives: numpy moves an array's memory only in resize(), which refuses one that is referenced.
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, flags)
    cdef void *p = view.buf
    PyBuffer_Release(&view)
    return p


cdef inline object indices_array(object array, str name):
    import numpy as np

    if not isinstance(array, np.ndarray) or array.dtype != np.int32 or array.ndim != 1:
        raise TypeError(f"{name}: expected a 1-D int32 array, found {type(array).__name__} "
                        f"{getattr(array, 'dtype', '')} {getattr(array, 'shape', '')}")
    return np.ascontiguousarray(array)


cdef inline object checked_array(object array, object dtype, int ndim, str name, str part):
    import numpy as np

    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != ndim:
        raise misfit(f"{part}: expected a {ndim}-D {np.dtype(dtype)} array, found {type(array).__name__} "
                     f"{getattr(array, 'dtype', '')} {getattr(array, 'shape', '')}", name)
    return np.ascontiguousarray(array)


cdef inline object offsets_array(object array, str name, str part, list held):
    array = checked_array(array, "int64", 1, name, part)
    if not len(array) or array[0] != 0:
        raise misfit(f"{part}: expected offsets that start at 0, found {array[:1]}", name)
    held.append(array)
    return array


cdef inline Py_ssize_t take_column(const df_spec *spec, tuple wanted, object column, list held,
                                   df_column *taken) except -1:
    cdef str name = wanted[0]
    cdef tuple shape = wanted[2]
    values = checked_array(column.values, wanted[1], len(shape) + 1, name, "values")
    if values.shape[1:] != shape:
        raise misfit(f"values: expected shape (n, *{shape}), found {values.shape}", name)
    rows = len(values)
    if (column.offsets is None) != (spec.form == DF_FIXED) or (column.inner is None) != (spec.form != DF_LIST):
        raise misfit("expected offsets for ragged and bytes features only, inner ones for bytes lists only", name)
    taken.items = taken.inner_items = len(values)
    if spec.form == DF_LIST:
        inner = offsets_array(column.inner, name, "inner", held)
        taken.inner = <const int64_t *>address_of(inner, PyBUF_SIMPLE)
        taken.items = len(inner) - 1
    if spec.form != DF_FIXED:
        offsets = offsets_array(column.offsets, name, "offsets", held)
        taken.offsets = <const int64_t *>address_of(offsets, PyBUF_SIMPLE)
        rows = len(offsets) - 1
    if column.present is not None:
        present = checked_array(column.present, "bool", 1, name, "present")
        if len(present) != rows:
            raise misfit(f"present: expected {rows} rows, found {len(present)}", name)
        held.append(present)
        taken.present = <const uint8_t *>address_of(present, PyBUF_SIMPLE)
    held.append(values)
    taken.values = <const uint8_t *>address_of(values, PyBUF_SIMPLE)
    return rows


cdef inline Py_ssize_t take_columns(const df_spec *specs, list wanted, list columns, list held,
                                    df_column *taken) except -2:
    # `wanted`: name, dtype and row shape of each feature. How many rows there are, or -1 without a column.
    cdef Py_ssize_t i, rows = -1, here
    if len(columns) != len(wanted):
        raise misfit(f"expected {len(wanted)} columns, found {len(columns)}", "")
    for i in range(len(wanted)):
        here = take_column(&specs[i], wanted[i], columns[i], held, &taken[i])
        if rows >= 0 and here != rows:
            raise misfit(f"expected {rows} rows as in the columns before, found {here}", wanted[i][0])
        rows = here
    return rows

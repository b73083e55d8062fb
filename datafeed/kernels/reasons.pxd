"""Say in words what a kernel found wrong."""

from libc.stdint cimport int64_t, uint64_t

from datafeed.kernels.headers cimport (
    DF_ABSENT, DF_COUNT, DF_CUT, DF_GROUP, DF_KIND, DF_LENGTH_CRC, DF_MISSING, DF_MORE, DF_MULTIPLE, DF_NO_MEMORY,
    DF_OFFSETS, DF_OVER_LIMIT, DF_PAST_END, DF_PAYLOAD_CRC, DF_RANGE, DF_RECORD_LIMIT, DF_SIZE, DF_SIZE_MULTIPLE,
    DF_TOO_LARGE, DF_TOO_MUCH, DF_WIRE, df_fault, df_walked,
)


cdef inline str walk_reason(int code, const df_walked *walked, Py_ssize_t nbytes, Py_ssize_t records):
    cdef uint64_t found = walked.found
    if code == DF_CUT:
        return f"expected a record of at least 16 bytes, found {found} bytes before the end"
    if code == DF_LENGTH_CRC:
        return "the length's checksum is wrong"
    if code == DF_PAST_END:
        left = nbytes - walked.offset - 16
        return f"expected a length of at most the {left} bytes that are left, found {found}"
    if code == DF_OVER_LIMIT:
        return f"expected a record of at most {DF_RECORD_LIMIT} bytes, found {found}"
    if code == DF_PAYLOAD_CRC:
        return "the data's checksum is wrong"
    if code == DF_MORE:
        return f"expected {records} records, found more"
    return f"expected {records} records, found {walked.count}"


cdef inline str kind_word(int64_t kind):
    return ("no", "a bytes", "a float", "an int64")[kind]


cdef inline object unfit(tuple features, df_fault *fault):
    from datafeed.errors import RecordTooLarge, SchemaError

    feature = features[fault.feature] if 0 <= fault.feature < len(features) else None
    name = feature.name if feature is not None else ""
    if fault.code == DF_TOO_LARGE:
        return RecordTooLarge(f"expected a record of at most {DF_RECORD_LIMIT} bytes; split the row or shrink its "
                              "largest value", row=fault.row, feature=name)
    if fault.code == DF_NO_MEMORY or fault.code == DF_TOO_MUCH:
        return MemoryError("no memory for that many rows; use fewer at once")
    return SchemaError(unfit_reason(feature, fault), row=fault.row, feature=name)


cdef inline str unfit_reason(object feature, df_fault *fault):
    cdef int code = fault.code
    if code == DF_WIRE:
        return f"expected a tf.train.Example, found broken wire data at byte {fault.offset} of the record"
    if code == DF_GROUP:
        return f"expected a tf.train.Example, found a group (deprecated) at byte {fault.offset} of the record"
    if code == DF_MISSING:
        return "expected in each record, found none; mark it optional if records may lack it"
    if code == DF_KIND:
        return f"expected {kind_word(fault.wanted)} list, found {kind_word(fault.found)} list"
    if code == DF_COUNT:
        return f"expected {fault.wanted} values for shape {feature.shape}, found {fault.found}"
    if code == DF_MULTIPLE:
        return f"expected a multiple of {fault.wanted} values for shape {feature.shape}, found {fault.found}"
    if code == DF_SIZE:
        return f"expected {fault.wanted} bytes for {feature.dtype} {feature.shape}, found {fault.found}"
    if code == DF_SIZE_MULTIPLE:
        return f"expected a multiple of {fault.wanted} bytes for {feature.dtype} {feature.shape}, found {fault.found}"
    if code == DF_RANGE:
        return f"expected values that fit {feature.dtype}, found {fault.found}"
    if code == DF_ABSENT:
        return "expected in each row as it is not optional, found a row without it"
    if code == DF_OFFSETS:
        return "expected offsets that never fall and stay inside the values"
    return "the column changed while it was encoded"


cdef inline object misfit(str reason, str feature):
    from datafeed.errors import SchemaError

    return SchemaError(reason, feature=feature)

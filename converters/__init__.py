"""Turn raw data sets into shards: source, samples, records, blocks, shards, index."""

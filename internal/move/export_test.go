package move

// RunInChunks is Run with another number of plants in a chunk.
var RunInChunks = run

package move

// RunInChunks is Run with another number of plants in a chunk.
var RunInChunks = run

// These are the errors of Run that no other package compares.
var (
	ErrMoved     = errMoved
	ErrDifferent = errDifferent
)

package listers

// MaxSize is maxSize, for tests of the listers.
const MaxSize = maxSize

package cache

// group is one tracked group.
type group struct {
	since   int // the call of Track that added it
	maxRev  int64
	read    int64 // the store's clock at the last reading of its locks
	floor   int64 // its floor some time before that
	count   int64 // as of then
	loaded  bool
	touched bool // something says that what is known is not the newest
	lowered bool // read and floor were lowered, and the next reading is to see it
}

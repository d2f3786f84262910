package tasks

// Batch is something to be worked on at once.
type Batch struct {
	ID   string // the same whenever the batch is delivered again, on any replica
	Type string // media type of Body, such as application/json; empty: not known
	Body []byte
}

package api

// KeyOwner is who owns a key, and where requests for it go. It is a hint: the owner may have given the key up since
// then. So a process that gets a request checks its own lease, and answers 421 where it does not hold the key.
type KeyOwner struct {
	Key   string `json:"key"` // GROUP/NAME
	Group string `json:"group"`
	Name  string `json:"name"`

	Owner

	// Address is HOST:PORT where the owner takes requests for its keys; empty: it takes none.
	Address string `json:"address"`
	// ValidForSeconds is what was left of the owner's lease, as last seen by the replica that answers. A live owner
	// renews it, which is no change of the list. 0: the lease is over, or it is not known.
	ValidForSeconds float64 `json:"validForSeconds"`
}

// Headers of a request that was sent to the owner of a key.
const (
	KeyHeader   = "Shardctl-Key"           // GROUP/NAME
	TokenHeader = "Shardctl-Fencing-Token" //nolint:gosec // G101: a header's name; the token is of the owner that is meant
)

package fence

// Marks are the largest tokens that have been seen of one key; 0: none yet. There are two, since readers own a key at
// the same time: with one mark a reader would refuse those that came before it and still read.
//
// A fence that compares where its data is, as a script or a filter does, asks for [Claim.Limits] and [Claim.Marks].
// It passes a claim when no mark is above its limit, and keeps the larger of each mark. So the rule stands here alone.
type Marks struct {
	Exclusive int64 // of sole owners
	Shared    int64 // of readers
}

// Pass says whether a claim may work, and which marks remain. The error is that of [Claim.Validate], or an [*OldError].
// With an error the marks are as before.
func (m Marks) Pass(c Claim) (Marks, error) {
	if err := c.Validate(); err != nil {
		return m, err
	}
	if limits := c.Limits(); m.Exclusive > limits.Exclusive || m.Shared > limits.Shared {
		return m, &OldError{Claim: c, Seen: m}
	}
	own := c.Marks()
	return Marks{Exclusive: max(m.Exclusive, own.Exclusive), Shared: max(m.Shared, own.Shared)}, nil
}

package status

import (
	"net/http"
	"time"
)

// answerTimeout is how long an answer that is no stream may take as a whole, however steadily its reader reads.
const answerTimeout = 60 * time.Second

// answer is a long answer on its way to its reader. While it goes on, its text stays in memory. So each chunk has a
// deadline, as a stream's has, and all of it has one too. Use newAnswer.
type answer struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	until time.Time
}

func newAnswer(w http.ResponseWriter) *answer {
	return &answer{w: w, ctl: http.NewResponseController(w), until: time.Now().Add(answerTimeout)}
}

// Write implements [io.Writer]. The last deadline holds for what the server writes afterwards.
func (a *answer) Write(p []byte) (n int, err error) {
	for err == nil && n < len(p) {
		at := time.Now().Add(writeTimeout)
		if at.After(a.until) {
			at = a.until
		}
		_ = a.ctl.SetWriteDeadline(at) // writers that know no deadlines have the connection's own limits
		var m int
		m, err = a.w.Write(p[n:min(len(p), n+chunk)])
		n += m
	}
	return n, err
}

package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// vouchLife is how far the time of a proof may be from that of who reads it: clocks differ.
const vouchLife = time.Minute

// Vouch proves to another replica with the same tokens that the holder of a token asks for something, without showing
// the token. what says for what, and of whom: a proof is good for nothing else. ok is false when the token is not
// known.
//
// The proof is "UNIX-SECONDS MAC", with an HMAC-SHA256 whose key is the token's hash.
func (t *Tokens) Vouch(text, what string, now time.Time) (proof string, ok bool) {
	sum := sha256.Sum256([]byte(text))
	for _, known := range t.file.Get() {
		if subtle.ConstantTimeCompare(sum[:], known.sum[:]) == 1 {
			at := strconv.FormatInt(now.Unix(), 10)
			return at + " " + base64.RawURLEncoding.EncodeToString(known.mac(at, what)), true
		}
	}
	return "", false
}

// Vouched says whether a proof is of now, for this, and by the holder of a token.
func (t *Tokens) Vouched(proof, what string, now time.Time) bool {
	at, text, _ := strings.Cut(proof, " ")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > vouchLife {
		return false
	}
	mac, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	vouched := false
	for _, known := range t.file.Get() {
		if hmac.Equal(mac, known.mac(at, what)) {
			vouched = true
		}
	}
	return vouched
}

func (t token) mac(at, what string) []byte {
	h := hmac.New(sha256.New, t.sum[:])
	_, _ = h.Write([]byte("shardctl vouches\n" + at + "\n" + what)) // hashes take everything
	return h.Sum(nil)
}

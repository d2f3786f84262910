package access

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/verbs"
)

// Identity is who asks.
type Identity struct {
	Name string // of the token
	Role verbs.Role
}

// Tokens are those of a file, which is read again when it changes.
type Tokens struct{ file *watched[[]token] }

type token struct {
	Identity
	sum [sha256.Size]byte
}

// leastToken is how many bytes a token has at least: shorter ones can be guessed.
const leastToken = 16

// LoadTokens reads a file with lines "NAME TOKEN [read|operate|admin]". Empty lines and those that begin with # are
// left out; without a role it is admin. A name may stand on several lines, so that one token can follow another.
//
// A file without a token means that none is known: who empties it takes all of them back. One that cannot be read, or
// has a line that cannot be used, changes nothing.
func LoadTokens(path string, log logr.Logger) (*Tokens, error) {
	file, err := watch("tokens", log, func(contents [][]byte) ([]token, error) {
		list, err := parseTokens(contents[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(list) == 0 {
			log.Info("The file of tokens has none: what needs a token is refused", "file", path)
		}
		return list, nil
	}, path)
	if err != nil {
		return nil, err
	}
	return &Tokens{file}, nil
}

// parseTokens reports all that is wrong. No error shows a token.
func parseTokens(text []byte) ([]token, error) {
	var list []token
	var errs []error
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		t, err := parseToken(words)
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		if slices.ContainsFunc(list, func(other token) bool { return other.sum == t.sum }) {
			errs = append(errs, fmt.Errorf("line %d: the token of %s stands on another line as well", n, t.Name))
			continue
		}
		list = append(list, t)
	}
	if err := lines.Err(); err != nil {
		errs = append(errs, err)
	}
	return list, errors.Join(errs...)
}

func parseToken(words []string) (token, error) {
	t := token{Identity: Identity{Name: words[0], Role: verbs.Admin}}
	if len(words) < 2 || len(words) > 3 {
		return t, fmt.Errorf(`%d words; want "NAME TOKEN [read|operate|admin]"`, len(words))
	}
	if len(words[1]) < leastToken {
		return t, fmt.Errorf("the token of %s has %d bytes; at least %d are needed", t.Name, len(words[1]), leastToken)
	}
	if len(words) == 3 {
		role, err := verbs.ParseRole(words[2])
		if err != nil {
			return t, err
		}
		t.Role = role
	}
	t.sum = sha256.Sum256([]byte(words[1]))
	return t, nil
}

// Find says whose token a text is. How long that takes says nothing of the tokens.
func (t *Tokens) Find(text string) (Identity, bool) {
	sum := sha256.Sum256([]byte(text))
	var found Identity
	for _, known := range t.file.Get() {
		if subtle.ConstantTimeCompare(sum[:], known.sum[:]) == 1 {
			found = known.Identity
		}
	}
	return found, found.Role > verbs.None
}

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

// Bearer is the bearer token of a request; false: it has none. The case of the scheme does not matter.
func Bearer(r *http.Request) (token string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

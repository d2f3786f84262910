package fencehttp

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/shardctl/shardctl/pkg/fence"
)

// The headers of a request.
const (
	HeaderKey   = "Shardctl-Key"
	HeaderToken = "Shardctl-Fencing-Token" //nolint:gosec // a name, no secret
)

// Claim is that of a request's headers: exclusive, as runs of tasks are. The error wraps [fence.ErrInvalid] and names
// the header.
func Claim(header http.Header) (fence.Claim, error) {
	key, err := only(header, HeaderKey)
	if err != nil {
		return fence.Claim{}, err
	}
	text, err := only(header, HeaderToken)
	if err != nil {
		return fence.Claim{}, err
	}
	token, err := strconv.ParseUint(text, 10, 63) // no sign
	if err != nil {
		return fence.Claim{}, fmt.Errorf("%w: %s %.40q: must be a whole number from 1 to 9223372036854775807",
			fence.ErrInvalid, HeaderToken, text)
	}
	c := fence.Exclusive(key, int64(token))
	return c, c.Validate()
}

func only(header http.Header, name string) (string, error) {
	switch all := header.Values(name); len(all) {
	case 1:
		return all[0], nil
	case 0:
		return "", fmt.Errorf("%w: %s: must be set", fence.ErrInvalid, name)
	default:
		return "", fmt.Errorf("%w: %s: is there %d times, must be there once", fence.ErrInvalid, name, len(all))
	}
}

package grpcroute

import (
	"context"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Metadata of an RPC that was sent to the owner of a key: the headers of package api.
const (
	KeyMetadata   = "shardctl-key"           // GROUP/NAME
	TokenMetadata = "shardctl-fencing-token" //nolint:gosec // G101: a name; the token is of the owner that is meant
)

// A refusal has an [errdetails.ErrorInfo] with these, and the key in its metadata.
const (
	Reason = "NOT_OWNER"
	Domain = "shardctl"
)

// Check returns the key that an RPC is about, and the fencing token under which this process holds it. Held says that
// of a key, GROUP/NAME, as [shard.Lease] has it: its Token, and whether it is Valid.
//
// A key that is not held, or under a smaller token than the sender knows of, is refused with Unavailable and
// [errdetails.ErrorInfo]. The sender looks again then, so nothing may have been done yet. Without a key the error has
// InvalidArgument. Return the error as it is.
//
// [shard.Lease]: https://pkg.go.dev/github.com/shardctl/shardctl/pkg/shard#Lease
func Check(ctx context.Context, held func(key string) (token int64, valid bool)) (key string, token int64, err error) {
	if key = lastOf(ctx, KeyMetadata); key == "" {
		return "", 0, status.New(codes.InvalidArgument,
			"grpcroute: the metadata has no "+KeyMetadata+": give it GROUP/NAME").Err()
	}
	meant, _ := strconv.ParseInt(lastOf(ctx, TokenMetadata), 10, 64) // 0: the sender knows of none
	token, valid := held(key)
	if valid && token >= meant {
		return key, token, nil
	}
	refusal := status.Newf(codes.Unavailable, "grpcroute: key %q is not held by this process", key)
	info := &errdetails.ErrorInfo{Reason: Reason, Domain: Domain, Metadata: map[string]string{"key": key}}
	if detailed, failed := refusal.WithDetails(info); failed == nil {
		refusal = detailed
	}
	return "", 0, refusal.Err()
}

// lastOf is the last value of a name in the metadata of an RPC: a sender that passes metadata on adds its own after it.
func lastOf(ctx context.Context, name string) string {
	values := metadata.ValueFromIncomingContext(ctx, name)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// Refused says that [Check] refused an RPC. It was not carried out, and may be sent again.
func Refused(err error) bool { return refusedKey(err) != "" }

// refusedKey is the key of a refusal; empty: it is another error. A refusal that an owner got itself, for another key,
// and returned to its caller says nothing about the key of the caller.
func refusedKey(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() == Reason && info.GetDomain() == Domain {
			return info.GetMetadata()["key"]
		}
	}
	return ""
}

package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"strconv"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardctl/shardctl/pkg/elect"
)

// identity names one span.
type identity struct {
	trace trace.TraceID
	span  trace.SpanID
}

// handOver is the identity of the span of a key's release. token is the one that the key was held under until then.
func handOver(cluster string, key elect.Key, token int64) identity {
	sum := sha256.Sum256([]byte("shardctl hand-over\x00" + cluster + "\x00" + string(key) + "\x00" +
		strconv.FormatInt(token, 10)))
	return identity{trace.TraceID(sum[:16]), trace.SpanID(sum[16:24])}
}

type identityKey struct{}

// as has the next root span that is started with the context be id.
func (id identity) as(ctx context.Context) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// ids draws IDs, but for spans whose identity is in their context. It implements [sdk.IDGenerator].
type ids struct{}

var _ sdk.IDGenerator = ids{}

// NewIDs names a root span.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if id, ok := ctx.Value(identityKey{}).(identity); ok {
		return id.trace, id.span
	}
	var id trace.TraceID
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64()) //nolint:gosec // IDs are no secrets
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64()) //nolint:gosec // likewise
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID names a span of a trace.
func (ids) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	var id trace.SpanID
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64()) //nolint:gosec // likewise
	}
	return id
}

package tracing

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/shardctl/shardctl/pkg/elect"
)

// The names of spans.
const (
	SpanClaim    = "claim"     // from the decision to the store's acknowledgement
	SpanHandOver = "hand-over" // from the decision to the acknowledged release, for another replica
	SpanRelease  = "release"   // the same, for none
	SpanStart    = "start"     // from the claim to the task's first running, of tasks without ticks
	SpanRun      = "run"       // a run, or one of a tick; of a subscription until it is open
	SpanDelivery = "delivery"  // of one message or several, by a subscription
)

// The names of attributes, beside those of the semantic conventions.
const (
	AttrCluster       = attribute.Key("shardctl.cluster") // of the resource
	AttrKey           = attribute.Key("shardctl.key")
	AttrGroup         = attribute.Key("shardctl.group")
	AttrTask          = attribute.Key("shardctl.task")
	AttrInstance      = attribute.Key("shardctl.instance")
	AttrSession       = attribute.Key("shardctl.session")
	AttrToken         = attribute.Key("shardctl.fencing_token")
	AttrPreviousToken = attribute.Key("shardctl.previous_fencing_token")
	AttrFrom          = attribute.Key("shardctl.from") // the owner before
	AttrReason        = attribute.Key("shardctl.reason")
	AttrMessage       = attribute.Key("shardctl.message")
	AttrKind          = attribute.Key("shardctl.kind")
	AttrAttempt       = attribute.Key("shardctl.attempt")
	AttrScheduledAt   = attribute.Key("shardctl.scheduled_at")
	AttrPosition      = attribute.Key("shardctl.position") // of the first message of a delivery
	AttrMessages      = attribute.Key("shardctl.messages") // of a delivery
	AttrResult        = attribute.Key("shardctl.result")
)

// of are the attributes that every span has.
func (t *Tracer) of(key elect.Key, session string, token int64, more ...attribute.KeyValue) []attribute.KeyValue {
	return append([]attribute.KeyValue{
		AttrKey.String(string(key)), AttrGroup.String(key.Group()), AttrTask.String(key.Name()),
		AttrInstance.String(t.instance), AttrSession.String(session), AttrToken.Int64(token),
	}, more...)
}

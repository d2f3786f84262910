package mqtt

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/eclipse/paho.golang/paho/session/state"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/recall"
)

// patience is for the answer to one request.
const patience = 20 * time.Second

// open connects to one server, takes the session over and subscribes.
func (s Source) open(ctx context.Context, server string, session subscribe.Session) (*subscription, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	u, err := parseServer(server)
	if err != nil {
		return nil, err
	}
	c, err := dial(ctx, u, s.TLS)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	sub := newSubscription(s, server, c, session)
	err = sub.start(ctx)
	if ended := !stop(); ended || err != nil {
		_ = c.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return sub, nil
}

func newSubscription(s Source, server string, c *conn, session subscribe.Session) *subscription {
	sub := &subscription{
		source: s, where: fmt.Sprintf("mqtt broker %s, topic %q", server, s.Filter), conn: c, session: session,
		state: state.NewInMemory(),
		ended: make(chan struct{}), run: rand.Text()[:10], attempts: recall.ParseAttempts(""),
	}
	sub.inbox = newInbox(int(s.receiveMaximum(session)), sub.drops)
	sub.pinger = newPinger(c, sub.end)
	sub.client = paho.NewClient(paho.ClientConfig{
		ClientID: s.ClientID, Conn: c, Session: acks{sub.state}, PingHandler: sub.pinger, PacketTimeout: patience,
		OnPublishReceived:  []func(paho.PublishReceived) (bool, error){sub.received},
		OnServerDisconnect: func(d *paho.Disconnect) { sub.end(sub.meaning(d)) },
		OnClientError:      sub.end,
	})
	return sub
}

// receiveMaximum is how many messages the broker sends ahead of their acknowledgements.
func (s Source) receiveMaximum(session subscribe.Session) uint16 {
	return uint16(min(max(session.InFlight, 1), math.MaxUint16))
}

// start opens the session and subscribes.
func (s *subscription) start(ctx context.Context) error {
	kept, err := s.kept(ctx)
	if err != nil {
		return err
	}
	if kept != nil {
		s.attempts = recall.ParseAttempts(string(kept.Attempts))
	}
	answer, err := s.client.Connect(ctx, s.connect())
	if err != nil {
		return refused(answer, err)
	}
	if p := answer.Properties; p != nil && p.MaximumPacketSize != nil {
		s.largest = int64(*p.MaximumPacketSize)
	}
	if err := s.resume(ctx, kept, answer.SessionPresent); err != nil {
		_ = s.client.Disconnect(&paho.Disconnect{}) // it waits for the client's goroutines
		return err
	}
	return nil
}

// resume subscribes, and says where messages are missing.
func (s *subscription) resume(ctx context.Context, kept *mark, present bool) error {
	if err := s.subscribe(ctx, kept); err != nil {
		return err
	}
	if kept == nil {
		if !present {
			subscribe.LogBeginning(s.session.Log, s.source.Filter)
		} else {
			s.session.Log.Error(fmt.Errorf("%s: there is a session %q that this task has not made: another task or program "+
				"uses this mqtt.clientID, or did; what its session is subscribed to comes here too", s.where,
				s.source.ClientID),
				"A session of somebody else is taken over")
		}
		return s.keep(ctx)
	}
	if !present {
		s.session.Log.Error(fmt.Errorf("%s: the broker has no session %q any more: what was published since it ended is "+
			"missing", s.where, s.source.ClientID), "Messages may be missing")
	}
	if kept.Filter != s.source.Filter {
		return s.keep(ctx)
	}
	return nil
}

// connect is the request for the session. With quality of service 0 there is none to keep.
func (s *subscription) connect() *paho.Connect {
	expiry := uint32(s.source.SessionExpiry / time.Second) //nolint:gosec // bounded by Validate
	most := s.source.receiveMaximum(s.session)
	c := &paho.Connect{
		ClientID: s.source.ClientID, KeepAlive: uint16(max(s.source.KeepAlive/time.Second, 1)), //nolint:gosec // as above
		Properties: &paho.ConnectProperties{ReceiveMaximum: &most, RequestProblemInfo: true},
	}
	if s.source.QoS > 0 {
		c.Properties.SessionExpiryInterval = &expiry
	} else {
		c.CleanStart = true
	}
	if s.source.Login.User != "" {
		c.Username, c.UsernameFlag = s.source.Login.User, true
	}
	if s.source.Login.Password != "" {
		c.Password, c.PasswordFlag = []byte(s.source.Login.Password), true
	}
	return c
}

// keepOnce has retained messages sent when the subscription is new, and not at each Open.
const keepOnce = 1

// subscribe subscribes, and ends what the session is subscribed to besides.
func (s *subscription) subscribe(ctx context.Context, kept *mark) error {
	if kept != nil && kept.Filter != s.source.Filter && kept.ClientID == s.source.ClientID && s.source.QoS > 0 {
		if _, err := s.client.Unsubscribe(ctx, &paho.Unsubscribe{Topics: []string{kept.Filter}}); err != nil {
			return fmt.Errorf("end the subscription to %q: %w", kept.Filter, err)
		}
	}
	answer, err := s.client.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{
		Topic: s.source.Filter, RetainHandling: keepOnce, RetainAsPublished: true,
		QoS: byte(s.source.QoS), //nolint:gosec // 0 to 2
	}}})
	switch {
	case answer != nil && len(answer.Reasons) == 1 && answer.Reasons[0] == packets.SubackNotauthorized:
		return errors.New("the broker does not let the user read the topic: give it that right")
	case err != nil:
		return fmt.Errorf("subscribe: %w", err)
	case len(answer.Reasons) == 1 && int(answer.Reasons[0]) < s.source.QoS:
		return fmt.Errorf("the broker grants a quality of service of %d only: set mqtt.qos to that", answer.Reasons[0])
	}
	return nil
}

// refused is what the broker's answer to a connect means.
func refused(answer *paho.Connack, err error) error {
	if answer == nil {
		return fmt.Errorf("connect: %w", err)
	}
	switch answer.ReasonCode {
	case packets.ConnackBadUsernameOrPassword, packets.ConnackNotAuthorized:
		return errors.New("the broker refuses the user or password")
	case packets.ConnackInvalidClientID:
		return errors.New("the broker refuses the client ID: set mqtt.clientID")
	case packets.ConnackUnsupportedProtocolVersion:
		return errors.New("the broker does not speak MQTT 5")
	}
	return fmt.Errorf("the broker refuses the connection: %s",
		(&packets.Connack{ReasonCode: answer.ReasonCode}).Reason())
}

// meaning is why the broker has ended the connection.
func (s *subscription) meaning(d *paho.Disconnect) error {
	if d.ReasonCode == packets.DisconnectSessionTakenOver {
		return errors.New(s.takenOver())
	}
	return fmt.Errorf("the broker has ended the connection: %s",
		(&packets.Disconnect{ReasonCode: d.ReasonCode}).Reason())
}

// mark is what the checkpoint holds: that there is a session. A session that the broker has dropped is noticed by it.
type mark struct {
	ClientID string `json:"clientID"`
	Filter   string `json:"topic"`
	// Attempts at messages that were not acknowledged are JSON of package recall, by IDs.
	Attempts json.RawMessage `json:"attempts,omitempty"`
}

// kept is the mark of the session; nil: there is none. Quality of service 0 has no session.
func (s *subscription) kept(ctx context.Context) (*mark, error) {
	if s.source.QoS == 0 {
		return nil, nil //nolint:nilnil // nothing was kept, and nothing is wrong
	}
	value, err := s.session.Checkpoint.Value(ctx)
	if err != nil {
		return nil, fmt.Errorf("read whether there is a session: %w", err)
	}
	var m mark
	_ = json.Unmarshal(value, &m) // what is no mark names no session
	if m.ClientID != s.source.ClientID {
		return nil, nil //nolint:nilnil // nothing is known of a session of this name
	}
	return &m, nil
}

// KeepDelivered keeps attempts in the checkpoint. With quality of service 0 no message comes again.
func (s *subscription) KeepDelivered(ctx context.Context, messages []subscribe.Message) error {
	now := map[string]int{}
	for _, m := range messages {
		now[m.ID] = m.Delivered
	}
	s.attempts.Update(now)
	return s.keep(ctx)
}

// forget drops the attempts at messages that are acknowledged. The checkpoint has them until it is written again.
func (s *subscription) forget(messages []subscribe.Message) {
	s.attempts.Drop(func(name string) bool {
		return slices.ContainsFunc(messages, func(m subscribe.Message) bool { return m.ID == name })
	})
}

// keep keeps the mark, and attempts.
func (s *subscription) keep(ctx context.Context) error {
	if s.source.QoS == 0 {
		return nil
	}
	value, err := json.Marshal(mark{s.source.ClientID, s.source.Filter, json.RawMessage(s.attempts.String())})
	if err == nil {
		err = s.session.Checkpoint.SetValue(ctx, value)
	}
	if err != nil {
		return fmt.Errorf("keep that there is a session: %w", err)
	}
	return nil
}

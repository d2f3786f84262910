//go:build linux

package brokers_test

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/paho"
)

// mqttTimeout is for one message: a broker that was restarted confirms nothing of an earlier connection.
const mqttTimeout = 5 * time.Second

// mqttPublisher publishes with QoS 1, over one connection that is made again after an error.
type mqttPublisher struct {
	addr string

	mu     sync.Mutex
	client *paho.Client // nil: to be made
}

// connectMQTT makes no topics: a topic is there for all who subscribe to it.
func connectMQTT(ctx context.Context, addr string, _ []string, _ int) (publisher, error) {
	p := &mqttPublisher{addr: addr}
	_, err := p.connected(ctx)
	return p, err
}

func (p *mqttPublisher) connected(ctx context.Context) (*paho.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		return p.client, nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return nil, err
	}
	client := paho.NewClient(paho.ClientConfig{Conn: conn})
	if _, err := client.Connect(ctx, &paho.Connect{ClientID: "sender", KeepAlive: 30, CleanStart: true}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	p.client = client
	return client, nil
}

func (p *mqttPublisher) Publish(ctx context.Context, to lane, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, mqttTimeout)
	defer cancel()
	client, err := p.connected(ctx)
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-client.Done(): // the connection broke: nothing will be confirmed on it
			cancel()
		case <-stop:
		}
	}()
	_, err = client.Publish(ctx, &paho.Publish{Topic: to.topic, QoS: 1, Payload: body})
	if err != nil {
		p.broken(client)
	}
	return err
}

// broken has a new connection made for the next message.
func (p *mqttPublisher) broken(client *paho.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == client {
		p.client = nil
		_ = client.Disconnect(&paho.Disconnect{}) // it may be gone already
	}
}

func (p *mqttPublisher) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		_ = p.client.Disconnect(&paho.Disconnect{})
	}
}

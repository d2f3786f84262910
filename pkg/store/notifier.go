package store

// notifications is how many of them wait for a slow reader before one Resync takes their place.
const notifications = 256

// Notifier is a watcher's channel as a store writes to it: never waiting, and never losing anything unsaid. When the
// reader is slow it takes out what is waiting and puts one Resync in their place. Only one goroutine at a time may
// call its methods, except C.
type Notifier struct{ c chan Notification }

// NewNotifier makes a notifier that begins with a Resync.
func NewNotifier() *Notifier {
	n := &Notifier{c: make(chan Notification, notifications)}
	n.c <- Notification{Resync: true}
	return n
}

// C is what the watcher reads.
func (n *Notifier) C() <-chan Notification { return n.c }

// Send hands one notification over.
func (n *Notifier) Send(one Notification) {
	select {
	case n.c <- one:
		return
	default:
	}
	for {
		select {
		case <-n.c:
			continue
		default:
		}
		break
	}
	n.c <- Notification{Resync: true}
}

// Close ends the channel; it must not be called twice.
func (n *Notifier) Close() { close(n.c) }

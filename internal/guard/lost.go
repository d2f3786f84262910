package guard

import "time"

// killFor is how long a worker that lost its guard goes on looking for processes to kill.
const killFor = 500 * time.Millisecond

// lose ends the client when the connection has: without a goodbye, it kills what it can find and then says Lost.
func (c *Client) lose(error) {
	c.mu.Lock()
	bye := c.bye
	victims := c.victims()
	procs := c.procs
	c.procs = map[uint64]*process{}
	c.mu.Unlock()
	for _, p := range procs {
		p.lost()
	}
	if bye {
		return
	}
	killFound(victims, Now().Add(killFor))
	close(c.lost)
}

// victims is what a lost guard's tasks can be known by. c.mu is held.
func (c *Client) victims() victims {
	v := victims{groups: map[int]bool{}, sessions: map[string]bool{}}
	for uuid := range c.known {
		v.sessions[uuid] = true
	}
	for _, p := range c.procs {
		if pid := p.PID(); pid > 0 {
			v.groups[pid] = true
		}
	}
	return v
}

// victims describes processes to be killed: their groups, or the session in their environment.
type victims struct {
	groups   map[int]bool
	sessions map[string]bool
}

package dbstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// Cause is a row of a table of a driver's errors: which errors it is about, by one of the first three fields, what they
// mean to callers, and what an operator can do.
type Cause struct {
	Is   error  // by [errors.Is]
	Says string // by a part of the text
	// Match says whether an error is one, and gives the text that stands in its place, in one line.
	Match func(err error) (text string, is bool)
	// Means is an error of package store. Left out: [driver.ErrInvalid], another try does not help.
	Means  error
	Advice string // what is wrong and what to do; empty: the error says it
}

// Causes makes errors of a driver those of package store. The first row that matches counts. What is in no row is
// [driver.ErrUnavailable]: a repeat may succeed.
type Causes struct {
	Table   []Cause
	Secrets func() []string // of the URI, old and new, kept out of texts; nil: there are none
}

// Translate names what was being done. nil stays nil. An error of package store keeps its meaning.
func (c *Causes) Translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{
		driver.ErrInvalid, driver.ErrSchema, driver.ErrSettings, driver.ErrUnavailable, driver.ErrCannotWatch,
		driver.ErrMalformed, driver.ErrTooLarge,
	} {
		switch text := c.hide(err.Error()); {
		case !errors.Is(err, known):
		case text == err.Error():
			return fmt.Errorf("%s: %w", doing, err)
		default:
			return fmt.Errorf("%s: %w: %s", doing, known, text)
		}
	}
	return fmt.Errorf("%s: %w: %w", doing, c.find(err).Means, c.Describe(err))
}

// Describe is an error with the advice for it, and without secrets.
func (c *Causes) Describe(err error) error {
	row := c.find(err)
	if text := c.hide(row.Says); text != err.Error() {
		err = errors.New(text)
	}
	if row.Advice == "" {
		return err
	}
	return fmt.Errorf("%s (%w)", row.Advice, err)
}

// Lasting says that another try does not change an error.
func (c *Causes) Lasting(err error) bool {
	return err != nil && (errors.Is(err, driver.ErrInvalid) || errors.Is(err, driver.ErrSchema) ||
		errors.Is(c.find(err).Means, driver.ErrInvalid))
}

// find is the row of an error. Its Says is the text that stands for it.
func (c *Causes) find(err error) Cause {
	for _, row := range c.Table {
		text, is := err.Error(), row.Is != nil && errors.Is(err, row.Is)
		if row.Match != nil {
			text, is = row.Match(err)
		}
		if is || row.Says != "" && strings.Contains(text, row.Says) {
			row.Says = text
			if row.Means == nil {
				row.Means = driver.ErrInvalid
			}
			return row
		}
	}
	return Cause{Means: driver.ErrUnavailable, Says: err.Error()}
}

func (c *Causes) hide(text string) string {
	if c.Secrets == nil {
		return text
	}
	return storeuri.Scrub(text, c.Secrets())
}

// TLS is what Go's TLS says, in a form that also drivers keep which pass on texts alone. The parameters are those of
// [storeuri.TLSFiles].
func TLS() []Cause {
	const otherHosts = "the server's certificate is for other hosts: name one of them in the URI"
	return []Cause{
		{
			Says:   "x509: certificate signed by unknown authority",
			Advice: "no known authority has signed the server's certificate: name its file by tlsCAFile",
		},
		{Says: "x509: certificate is valid for", Advice: otherHosts},
		{Says: "x509: cannot validate certificate for", Advice: otherHosts},
		{Says: "x509: ", Advice: "the server's certificate is not valid"},
		{Says: "first record does not look like a TLS handshake", Advice: "the server does not speak TLS at this port"},
		{
			Says:   "remote error: tls: ",
			Advice: "the server refuses this client's certificate: name one by tlsCertFile and tlsKeyFile",
		},
	}
}

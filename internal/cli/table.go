package cli

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/shardctl/shardctl/pkg/api"
)

// column is one column of a table: its title and its cells.
type column[T any] struct {
	Title string
	Wide  bool // only with -o wide
	Right bool // numbers
	Cell  func(v *surface, item *T) string
}

// ofText is a column of texts; a dash for none.
func ofText[T any](title string, text func(*T) string) column[T] {
	return column[T]{Title: title, Cell: func(_ *surface, item *T) string { return orDash(text(item)) }}
}

// ofCount is a column of numbers.
func ofCount[T any](title string, count func(*T) int) column[T] {
	cell := func(_ *surface, item *T) string { return strconv.Itoa(count(item)) }
	return column[T]{Title: title, Right: true, Cell: cell}
}

// ofNumber is a column of large numbers, such as tokens; a dash for 0.
func ofNumber[T any](title string, n func(*T) int64) column[T] {
	cell := func(_ *surface, item *T) string { return number(n(item)) }
	return column[T]{Title: title, Right: true, Cell: cell}
}

// ofAge is a column of times ago; a dash for none.
func ofAge[T any](title string, at func(*T) api.Time) column[T] {
	cell := func(v *surface, item *T) string { return v.ago(at(item)) }
	return column[T]{Title: title, Right: true, Cell: cell}
}

// ofSpan is a column of times ago or to come; a dash for none.
func ofSpan[T any](title string, at func(*T) api.Time) column[T] {
	cell := func(v *surface, item *T) string { return v.age(at(item)) }
	return column[T]{Title: title, Right: true, Cell: cell}
}

func onlyWide[T any](c column[T]) column[T] {
	c.Wide = true
	return c
}

// surface is what cells depend on besides their item.
type surface struct {
	Now           time.Time
	Colour        bool
	Width, Height int // of the terminal; 0: no limit
}

// printer writes rows in columns as kubectl does: no borders, three spaces between, and lines as long as they are. It
// keeps widths from one table to the next, so that what a watch adds stands under what was there.
type printer[T any] struct {
	columns []column[T]
	header  bool
	widths  []int
}

func newPrinter[T any](columns []column[T], wide, header bool) *printer[T] {
	p := &printer[T]{header: header}
	for _, c := range columns {
		if wide || !c.Wide {
			p.columns = append(p.columns, c)
		}
	}
	p.widths = make([]int, len(p.columns))
	return p
}

// print writes the items, and the header before the first ones.
func (p *printer[T]) print(w io.Writer, v *surface, items []T) error {
	_, err := fmt.Fprintln(w, p.render(v, items))
	return err
}

func (p *printer[T]) render(v *surface, items []T) string {
	p.measure(func(c column[T]) string { return c.Title }, p.header)
	for i := range items {
		p.measure(func(c column[T]) string { return c.Cell(v, &items[i]) }, true)
	}
	t := table.NewWriter()
	t.SetStyle(bare())
	t.SuppressTrailingSpaces()
	if p.header {
		t.AppendHeader(p.row(func(c column[T]) string { return c.Title }))
		p.header = false
	}
	for i := range items {
		t.AppendRow(p.row(func(c column[T]) string { return c.Cell(v, &items[i]) }))
	}
	t.SetColumnConfigs(p.configs())
	return t.Render()
}

func (p *printer[T]) measure(cell func(column[T]) string, shown bool) {
	for i, c := range p.columns {
		if shown {
			p.widths[i] = max(p.widths[i], text.StringWidthWithoutEscSequences(cell(c)))
		}
	}
}

func (p *printer[T]) configs() []table.ColumnConfig {
	configs := make([]table.ColumnConfig, len(p.columns))
	for i, c := range p.columns {
		configs[i] = table.ColumnConfig{Number: i + 1, WidthMin: p.widths[i]}
		if c.Right {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	return configs
}

func (p *printer[T]) row(cell func(column[T]) string) table.Row {
	row := make(table.Row, len(p.columns))
	for i, c := range p.columns {
		row[i] = cell(c)
	}
	return row
}

func bare() table.Style {
	style := table.StyleDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "   "
	style.Options = table.OptionsNoBordersAndSeparators
	return style
}

// state colours a word by how well it is; the word says the same.
func (v *surface) state(word string) string {
	word = Printable(word)
	code := ""
	switch word {
	case string(api.Running), string(api.Live), string(api.Done):
		code = "32"
	case string(api.Unassigned), string(api.Failed), string(api.Backoff), string(api.Dead), string(
		api.SeverityError,
	):
		code = "31"
	case string(api.Starting), string(api.Stopping), string(api.Draining), string(api.SeverityWarning):
		code = "33"
	}
	return v.paint(code, word)
}

// paint colours a text by the number of an ANSI attribute, if colours are shown.
func (v *surface) paint(code, word string) string {
	if !v.Colour || code == "" || word == "" {
		return word
	}
	return "\x1b[" + code + "m" + word + "\x1b[0m"
}

// age is how long ago, as kubectl says it: 12s, 5m30s, 3h, 2d.
func (v *surface) age(t api.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := v.Now.Sub(t.Time)
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d)
}

// ago is how long ago something has happened. What is yet to come, by a clock that is ahead of this one, is just now.
func (v *surface) ago(t api.Time) string {
	if t.After(v.Now) {
		t.Time = v.Now
	}
	return v.age(t)
}

func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < 10*time.Minute:
		if s := int(d.Seconds()) % 60; s > 0 {
			return fmt.Sprintf("%dm%ds", int(d.Minutes()), s)
		}
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 2*day:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(math.Floor(d.Hours()/24)))
	}
}

// orDash shows that there is none.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return Printable(s)
}

func limitText(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

// Count is a number of things: "1 task", "2 tasks".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

package cli

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/shardctl/shardctl/internal/status"
)

// column is one column of a table: how it is headed and what stands in it.
type column[T any] struct {
	title string
	wide  bool // only with -o wide
	right bool // numbers
	cell  func(v *view, item *T) string
}

// view is what cells depend on besides their item.
type view struct {
	now    time.Time
	colour bool
}

// printer writes rows in columns as kubectl does: no borders, three spaces between. It keeps the widths from one table
// to the next, so that what a watch adds stands under what was there.
type printer[T any] struct {
	columns []column[T]
	header  bool
	widths  []int
}

func newPrinter[T any](columns []column[T], wide, header bool) *printer[T] {
	p := &printer[T]{header: header}
	for _, c := range columns {
		if wide || !c.wide {
			p.columns = append(p.columns, c)
		}
	}
	p.widths = make([]int, len(p.columns))
	return p
}

// print writes the items, and the header before the first ones.
func (p *printer[T]) print(w io.Writer, v *view, items []T) error {
	t := table.NewWriter()
	t.SetStyle(bare())
	t.SuppressTrailingSpaces()
	if p.header {
		t.AppendHeader(p.row(func(c column[T]) string { return c.title }))
		p.header = false
	}
	for i := range items {
		t.AppendRow(p.row(func(c column[T]) string { return c.cell(v, &items[i]) }))
	}
	configs := make([]table.ColumnConfig, len(p.columns))
	for i, c := range p.columns {
		configs[i] = table.ColumnConfig{Number: i + 1, WidthMin: p.widths[i]}
		if c.right {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	t.SetColumnConfigs(configs)
	_, err := fmt.Fprintln(w, t.Render())
	return err
}

func (p *printer[T]) row(cell func(column[T]) string) table.Row {
	row := make(table.Row, len(p.columns))
	for i, c := range p.columns {
		s := cell(c)
		p.widths[i] = max(p.widths[i], text.StringWidthWithoutEscSequences(s))
		row[i] = s
	}
	return row
}

func bare() table.Style {
	style := table.StyleDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "   "
	style.Options = table.OptionsNoBordersAndSeparators
	return style
}

// plainText keeps a row one line: texts of other people's errors may hold anything, also sequences that a terminal
// obeys.
func plainText(s string) string {
	clean := []rune(s)
	for i, r := range clean {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			clean[i] = ' '
		}
	}
	return string(clean)
}

// state colours a word by how well it is; the word says the same.
func (v *view) state(word string) string {
	word = plainText(word)
	code := ""
	switch word {
	case string(status.Running), string(status.Live), string(status.Done):
		code = "32"
	case string(status.Unassigned), string(status.Failed), string(status.Backoff), string(status.Dead), string(
		status.SeverityError,
	):
		code = "31"
	case string(status.Starting), string(status.Stopping), string(status.Draining), string(status.SeverityWarning):
		code = "33"
	}
	return v.paint(code, word)
}

func (v *view) paint(code, word string) string {
	if !v.colour || code == "" || word == "" {
		return word
	}
	return "\x1b[" + code + "m" + word + "\x1b[0m"
}

// age is how long ago, as kubectl says it: 12s, 5m30s, 3h, 2d.
func (v *view) age(t status.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := v.now.Sub(t.Time)
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d)
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
	return plainText(s)
}

func limitText(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

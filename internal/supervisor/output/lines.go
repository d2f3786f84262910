package output

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"unicode/utf8"
)

// Longest lines that are passed on in one piece, in bytes.
const (
	// maxLine is that of a line of output: for logs and for what is kept.
	maxLine = 64 << 10
	// maxAnswer is that of an answer, which may hold an error with all that led to it.
	maxAnswer = 1 << 20
)

// splitLines passes on what it reads until EOF, line by line, without line ends. A line of more than longest bytes is
// not whole: it comes in pieces of at most that many, cut between characters.
func splitLines(from io.Reader, longest int, line func(text string, whole bool)) error {
	s := splitter{longest: longest, line: line}
	chunk := make([]byte, 4<<10)
	for {
		n, err := from.Read(chunk)
		s.take(chunk[:n])
		if err == nil {
			continue
		}
		if len(s.part) > 0 {
			s.end()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

// splitter makes lines of what is read in pieces of any size.
type splitter struct {
	longest int
	line    func(text string, whole bool)
	part    []byte // what is left of the line that has not ended
	cut     bool   // pieces of that line were passed on
}

// take takes what was read next.
func (s *splitter) take(data []byte) {
	for len(data) > 0 {
		text, rest, ended := bytes.Cut(data, []byte("\n"))
		for s.part = append(s.part, text...); len(s.part) > s.longest; {
			n := cutAt(s.part, s.longest)
			s.cut = true
			s.line(string(s.part[:n]), false)
			s.part = append(s.part[:0], s.part[n:]...)
		}
		if ended {
			s.end()
		}
		data = rest
	}
}

// end passes on what is left of a line.
func (s *splitter) end() {
	s.line(string(s.part), !s.cut)
	s.cut = false
	if s.part = s.part[:0]; cap(s.part) > 8<<10 {
		s.part = nil // one long line should not cost memory for ever
	}
}

// pieces are those of at most longest bytes that text is cut into, between characters: the text itself when it is no
// longer.
func pieces(text string, longest int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > longest {
			n := cutAt(text, longest)
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
		yield(text)
	}
}

// cutAt is where text of more than longest bytes is cut: behind the last character that ends within them. What is not
// UTF-8 is cut anywhere.
func cutAt[T string | []byte](text T, longest int) int {
	for n := longest; n > max(0, longest-utf8.UTFMax); n-- {
		if utf8.RuneStart(text[n]) {
			return n
		}
	}
	return longest
}

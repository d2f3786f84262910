package cli

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/sys/unix"
)

// onTerminal is what write shows on a terminal. Its lines end with \r\n.
func onTerminal(t *testing.T, write func(w io.Writer) error) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	defer func() { _ = master.Close() }()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(master) // EIO once nobody has it open
		shown <- all
	}()
	err = write(slave)
	_ = slave.Close()
	if text := <-shown; err == nil {
		return string(text)
	}
	t.Fatal(err)
	return ""
}

// What others wrote moves nothing on a terminal, in any format. A pipe gets it as it is.
func TestTextsOfOthersOnATerminal(t *testing.T) {
	const evil = "\x1b]0;title\x07\x1b[31mred\u009b32m\u202eright\u2066\x7f\b"
	value := map[string]any{"items": []map[string]string{{"reason": evil, "name" + evil: "b"}}}
	for _, text := range []string{"json", "yaml", "jsonpath={.items[*].reason}", "jsonpath={.items[*]}"} {
		o := Output{allowed: []format{formatTable, formatJSON, formatYAML, formatPath}}
		if err := o.Set(text); err != nil {
			t.Fatal(err)
		}
		got := onTerminal(t, func(w io.Writer) error { return o.Write(w, value) })
		if i := strings.IndexFunc(strings.ReplaceAll(got, "\r\n", ""), func(r rune) bool {
			return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
		}); i >= 0 || !strings.Contains(got, "red") {
			t.Errorf("-o %s shows %q", text, got)
		}
	}
	for _, text := range []string{evil, "a b\n"} {
		got := onTerminal(t, func(w io.Writer) error {
			r := logReader{out: Shown(w)}
			return r.write(text)
		})
		if want := strings.ReplaceAll(printableText(text), "\n", "\r\n"); got != want {
			t.Errorf("logs show %q, want %q", got, want)
		}
	}
	var piped bytes.Buffer
	o := Output{format: formatPath, template: "{.items[*].reason}"}
	if err := o.Write(&piped, value); err != nil || piped.String() != evil+"\n" {
		t.Errorf("a pipe gets %q, %v, want it as it is", &piped, err)
	}
}

package mysql_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cpu is how much processor time a process has used, from /proc (Linux; proc(5): fields 14 and 15, in 1/100 s).
func cpu(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		tb.Skip("needs /proc: ", err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	var sum int64
	for _, field := range fields[12:14] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond
}

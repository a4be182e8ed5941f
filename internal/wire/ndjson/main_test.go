package ndjson

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if left := leftover(); left != "" {
		fmt.Println("goroutines left behind:\n" + left)
		code = 1
	}
	os.Exit(code)
}

// leftover returns the goroutines of transports that are still running.
func leftover() string {
	buf := make([]byte, 1<<20)
	for start := time.Now(); ; runtime.Gosched() {
		var left []string
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "ndjson.(*") {
				left = append(left, g)
			}
		}
		if len(left) == 0 || time.Since(start) > time.Minute {
			return strings.Join(left, "\n\n")
		}
	}
}

package console

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/exthost/exthost/config"
)

// Log text of extensions is escaped for the terminal.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	c := &Console{Err: &out}
	log, err := c.Logger(config.Log{Level: "info", Format: "text"}, slog.LevelInfo)
	if err != nil {
		t.Fatal(err)
	}
	log.With("who", "\x1b[1m").Warn("clear \x1b[2J \u009b31m", "line", "\u202e\x1b]0;x\x07")
	if !strings.Contains(out.String(), `clear \u001b[2J \u009b31m`) ||
		strings.ContainsAny(out.String(), "\x1b\u009b\u202e\x07") {
		t.Errorf("%q", &out)
	}
}

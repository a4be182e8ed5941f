//go:build !slim

package hub

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/exthost/exthost/cluster/internal/throttle"
)

// A hub whose own server refuses connections retries every second or two, and logs each kind of failure once
// a minute.
func TestHubLogsALineAMinuteOfWhatItTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		account, err := nkeys.CreateAccount()
		if err != nil {
			t.Fatal(err)
		}
		ended, err := server.NewServer(&server.Options{NoSigs: true, NoLog: true})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		h := &Hub{
			name:   "main",
			files:  &Files{account: account},
			server: ended,
			log:    slog.New(throttle.New(slog.NewTextHandler(&log, nil))),
		}
		const minutes = 5
		ctx, cancel := context.WithTimeout(t.Context(), minutes*time.Minute)
		defer cancel()
		h.relay(ctx)
		if n := strings.Count(log.String(), "does not answer nodes"); n < 2 || n > minutes+1 {
			t.Errorf("%d lines in %d minutes", n, minutes)
		}
	})
}

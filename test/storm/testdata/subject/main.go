// Subject is the extension that the storms are about: a small program, so that
// what they measure is the host and not the start of a test binary.
//
// Without arguments it is a good one, with approve KIND a policy, else what its first
// argument says; see hostile.go.
package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/sdk"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "approve" {
		os.Exit(approve(os.Args[2]))
	}
	if len(os.Args) > 1 {
		misbehave(os.Args[1])
		return
	}
	os.Exit(good().Main())
}

// good is an extension whose every call can be accounted for.
func good() *sdk.Extension {
	x := sdk.New("1.0.0")
	var journal *os.File
	x.OnSetup(func(_ context.Context, s sdk.Setup) (err error) {
		journal, err = os.OpenFile(filepath.Join(s.StateDir, "journal"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		return err
	})
	type text struct {
		Text string `json:"text"`
	}
	sdk.AddTool(x, sdk.Tool{Name: "echo"}, func(_ context.Context, in text) (string, error) { return in.Text, nil })
	sdk.AddTool(x, sdk.Tool{Name: "wait", Description: "Waits until nobody wants its answer."},
		func(ctx context.Context, _ struct{}) (string, error) { <-ctx.Done(); return "", nil })
	sdk.AddTool(x, sdk.Tool{
		Name:        "record",
		Description: "Writes the nonce to the journal, pauses and returns the nonce.",
	},
		func(_ context.Context, in struct {
			Nonce  string `json:"nonce"`
			Micros int    `json:"micros"`
		}) (string, error) {
			err := stormtest.AddEntry(journal, in.Nonce)
			time.Sleep(time.Duration(in.Micros) * time.Microsecond)
			return in.Nonce, err
		})
	return x
}

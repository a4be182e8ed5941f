// Command echo is a Go extension as an author writes it. Benchmarks call it.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/exthost/exthost/sdk"
)

func main() {
	x := sdk.New("1")
	sdk.AddTool(x, sdk.Tool{Name: "echo", Description: "Returns the text."},
		func(_ context.Context, in struct {
			Text string `json:"text"`
		}) (string, error) {
			return in.Text, nil
		})
	sdk.AddTool(x, sdk.Tool{Name: "write", Description: "Returns a text as long as it is asked to be."},
		func(_ context.Context, in struct {
			Size int    `json:"size"`
			Text string `json:"text"`
		}) (string, error) {
			return strings.Repeat("x", in.Size), nil
		})
	os.Exit(x.Main())
}

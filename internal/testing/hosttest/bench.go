package hosttest

import (
	"context"
	"strings"

	"github.com/exthost/exthost/sdk"
)

// BenchExtension returns texts.
func BenchExtension() *sdk.Extension {
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
	return x
}

// BenchTools are its tools in a manifest.
const BenchTools = "[capabilities]\ntools = [\"echo\", \"write\"]\n"

// BenchManifest is its manifest.
var BenchManifest = BenchTools + Plays("bench", "")

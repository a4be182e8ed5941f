package hosttest

import (
	"context"
	"strings"

	"github.com/exthost/exthost/sdk"
)

// BenchExtension has two tools that return texts.
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

// BenchTools declares the tools of [BenchExtension] in a manifest.
const BenchTools = "[capabilities]\ntools = [\"echo\", \"write\"]\n"

// BenchManifest is a manifest of [BenchExtension].
var BenchManifest = BenchTools + Plays("bench", "")

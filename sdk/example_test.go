package sdk_test

import (
	"cmp"
	"context"
	"os"

	"github.com/exthost/exthost/sdk"
)

// An extension with one tool, whose argument schema follows from the struct.
func Example() {
	x := sdk.New("0.1.0")
	sdk.AddTool(x, sdk.Tool{Name: "hello", Description: "Greet someone by name.", ReadOnly: true},
		func(_ context.Context, in struct {
			Name string `json:"name,omitempty" jsonschema_description:"Whom to greet"`
		}) (string, error) {
			return "Hello, " + cmp.Or(in.Name, "world") + "!", nil
		})
	os.Exit(x.Main())
}

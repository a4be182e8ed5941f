// Package sdk implements the author's side of the native protocol: it turns Go functions into the tools of an
// extension.
//
//	func main() {
//		x := sdk.New("0.1.0")
//		sdk.AddTool(x, sdk.Tool{Name: "greet", Description: "Greets somebody."},
//			func(ctx context.Context, in struct {
//				Name string `json:"name" jsonschema_description:"Whom to greet"`
//			}) (string, error) {
//				return "Hello, " + in.Name + "!", nil
//			})
//		os.Exit(x.Main())
//	}
//
// [Extension.OnDecide] makes it a policy instead, or as well:
//
//	x.OnDecide(func(ctx context.Context, e *sdk.Exchange) (sdk.Decision, error) {
//		if e.Tool == "ext_shell_run" {
//			return sdk.Deny("no_shell", "There is no shell here; use the file tools."), nil
//		}
//		return sdk.Allow(), nil
//	})
//
// [Extension.OnHook] adds a hook: a function that the host calls at a point of the
// agent loop, such as before each call of a tool, this extension's or another's.
//
// A tool's schema follows from the type of its input, see [AddTool]. Tools run concurrently; ctx ends when the
// caller gives up, and [Progress] and [Log] send messages to the caller during the call. Output to os.Stdout goes
// to stderr, where the host logs it, because stdout carries the protocol.
package sdk

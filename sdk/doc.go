// Package sdk is the author's side of the native protocol: it turns Go functions
// into the tools of an extension.
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
// [Extension.OnHook] answers at points of the agent loop: before and after the calls
// of tools, its own and others'.
//
// The tool's schema comes from the type of its input. Tools run concurrently; ctx
// ends when the caller gives up, and [Progress] and [Log] speak to it meanwhile.
// Whatever the program itself prints to stdout goes to stderr, where the host
// logs it, because stdout carries the protocol.
package sdk

// Package exthost opens a host over a configuration and calls its tools.
//
//	cfg := config.Default()                       // searches ./extensions
//	host, err := exthost.Open(ctx, cfg, exthost.Options{})
//	if err != nil { ... }
//	defer host.Close()
//
//	for _, tool := range host.Tools().Entries() { // hand these to the model
//		fmt.Println(tool.Name, tool.Description)
//	}
//	result, err := host.Call(ctx, "ext_kit_sha256", map[string]any{"text": "hello"})
//
// Every call takes one path, whichever way it came in:
//
//	caller → governance → hooks → validation → admission, breaker → extension
//	caller ← governance ← hooks ←──────────────────────── result or one *protocol.Error
package exthost

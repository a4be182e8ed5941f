// Careful is a policy of kind native: a person decides about some tools, and some words are
// masked in both directions.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"

	"github.com/exthost/exthost/sdk"
)

// config is the config of policy.yaml.
type config struct {
	Ask   []string `json:"ask"`   // globs of tools
	Words []string `json:"words"` // words to mask, without characters that JSON escapes
}

func main() {
	var c config
	x := sdk.New("0.1.0")
	x.OnSetup(func(_ context.Context, s sdk.Setup) error {
		if err := json.Unmarshal(s.Config, &c); err != nil {
			return fmt.Errorf("config: %w", err)
		}
		return nil
	})
	x.OnDecide(func(_ context.Context, e *sdk.Exchange) (sdk.Decision, error) { return c.decide(e) })
	os.Exit(x.Main())
}

func (c *config) decide(e *sdk.Exchange) (sdk.Decision, error) {
	for _, glob := range c.Ask {
		match, err := path.Match(glob, e.Tool)
		if err != nil {
			return sdk.Decision{}, fmt.Errorf("ask: %q: %w", glob, err)
		}
		if match && !e.InResponse() {
			return sdk.Ask(fmt.Sprintf("May %s run with %s?", e.Tool, e.Arguments())), nil
		}
	}
	before := e.Request
	if e.InResponse() {
		before = e.Response
	}
	after := before
	for _, word := range c.Words {
		after = bytes.ReplaceAll(after, []byte(word), []byte("***"))
	}
	if bytes.Equal(before, after) {
		return sdk.Allow(), nil
	}
	return sdk.Modify(after), nil
}

package record

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/mcpserver"
)

// replayOptions holds the flags of replay.
type replayOptions struct {
	nearest bool
	latency string
}

// Replay returns exthost calls replay, which serves a cassette.
func Replay(c *console.Console) *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Serve a recording as an MCP server on stdin and stdout",
		Long: "Serve the tools of all extensions in a cassette, which exthost calls record wrote, as an MCP server\n" +
			"on stdin and stdout. Nothing of the extensions runs: each call gets the answer that it got while\n" +
			"it was recorded, with the progress, the log messages and the questions on the way, and equal calls\n" +
			"get their answers in the recorded order.",
		Example: "  exthost calls replay notes.cassette\n  " +
			"exthost calls replay notes.cassette --nearest --latency real",
		Args: console.One("the cassette"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), c, args[0])
		},
	}
	f := cmd.Flags()
	f.Bool("strict", false, "a call that was not recorded is an error (default)")
	f.BoolVar(&o.nearest, "nearest", false, "a call that was not recorded gets the answer to the most similar one")
	cmd.MarkFlagsMutuallyExclusive("strict", "nearest")
	f.StringVar(&o.latency, "latency", manifest.LatencyNone,
		"0: answers come at once; real: they take as `LONG` as they did")
	return cmd
}

// drain is how long calls in flight may still take after the client has closed stdin.
const drain = 3 * time.Second

func (o *replayOptions) run(ctx context.Context, c *console.Console, file string) (err error) {
	if o.latency != manifest.LatencyNone && o.latency != manifest.LatencyReal {
		return console.Usagef("", "--latency is 0 or real, not %q", o.latency)
	}
	match := manifest.MatchStrict
	if o.nearest {
		match = manifest.MatchNearest
	}
	dir, _, err := hosts.Replays(file, match, o.latency)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cfg := hosts.Replaying(config.Default(), dir)
	log, err := c.Logger(cfg.Log, console.Level(cmp.Or(c.LogLevel, "warn")))
	if err != nil {
		return err
	}
	h, err := exthost.Open(ctx, cfg, exthost.Options{Logger: log, StateDir: filepath.Join(dir, "state")})
	if err != nil {
		return err
	}
	server := mcpserver.New(h, mcpserver.Options{Version: exthost.Version(), Logger: log, DrainTimeout: drain})
	err = server.ServeStdio(ctx, c.In.(*os.File), c.Out.(*os.File)) // files, because their reads can be interrupted
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, h.Close())
}

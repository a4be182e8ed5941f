// Command agent-go is an agent loop: it offers the tools of a host to a model, makes the
// calls that the model requests, and repeats until the model answers.
//
//	go run ./examples/agent-go 'remember "buy milk" and say which kernel runs here'
//
// Run it in a directory with extensions and, optionally, an exthost.yaml. A key in
// ANTHROPIC_API_KEY or OPENAI_API_KEY selects a real model; without a key, a scripted model
// is used, which needs no network. ANTHROPIC_BASE_URL and OPENAI_BASE_URL select other
// servers with the same API.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "agent-go:", err)
		os.Exit(1)
	}
}

// run runs the program. The answer goes to stdout, everything else to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("agent-go", flag.ContinueOnError)
	flags.SetOutput(stderr)
	named := flags.String("model", "",
		"anthropic, openai or scripted; anthropic:NAME or openai:NAME for one of its models")
	steps := flags.Int("steps", 16, "how often the model may ask for tools")
	if err := flags.Parse(args); err != nil {
		return err
	}
	task := strings.Join(flags.Args(), " ")
	if task == "" {
		return errors.New(`what is to be done? agent-go 'remember "buy milk"'`)
	}
	m, err := pick(*named, stderr)
	if err != nil {
		return err
	}
	host, err := open(ctx, stderr)
	if err != nil {
		return err
	}
	defer host.Close()
	answer, err := (&agent{host: host, model: m, steps: *steps, log: stderr}).run(ctx, task)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, answer)
	return err
}

// open opens a host with the configuration and the extensions of the working directory.
func open(ctx context.Context, stderr io.Writer) (*exthost.Host, error) {
	cfg, err := config.Load(config.LoadOptions{})
	if err != nil {
		return nil, fmt.Errorf("the configuration is invalid; exthost validate says the same:\n%w", err)
	}
	for _, d := range cfg.Warnings {
		fmt.Fprintln(stderr, d)
	}
	warnings := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	host, err := exthost.Open(ctx, cfg, exthost.Options{Logger: warnings})
	if err != nil {
		return nil, err
	}
	if len(host.Tools().Entries()) == 0 {
		fmt.Fprintf(stderr, "no tools: there is nothing that runs in %s; exthost check says why\n",
			strings.Join(cfg.Extensions.SearchPaths, ", "))
	}
	return host, nil
}

// pick returns the model VENDOR or VENDOR:MODEL. For "" it selects the vendor whose key is
// in the environment.
func pick(named string, stderr io.Writer) (model, error) {
	vendor, name, _ := strings.Cut(named, ":")
	if vendor == "" {
		switch {
		case os.Getenv("ANTHROPIC_API_KEY") != "":
			vendor = "anthropic"
		case os.Getenv("OPENAI_API_KEY") != "":
			vendor = "openai"
		default:
			vendor = "scripted"
			fmt.Fprintln(stderr, "neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set: a scripted model stands in")
		}
	}
	switch vendor {
	case "anthropic":
		api, err := newAPI("ANTHROPIC", "https://api.anthropic.com", stderr)
		return &anthropic{api: api, name: cmp.Or(name, "claude-sonnet-4-5")}, err
	case "openai":
		api, err := newAPI("OPENAI", "https://api.openai.com/v1", stderr)
		return &openai{api: api, name: cmp.Or(name, "gpt-5-mini")}, err
	case "scripted":
		return &scripted{}, nil
	}
	return nil, fmt.Errorf("there is no model %q: anthropic, openai or scripted", named)
}

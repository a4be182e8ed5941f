package main

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/lmittmann/tint"

	"github.com/exthost/exthost/config"
)

// logger writes to stderr as cfg says, and to its file as JSON.
func (a *app) logger(cfg config.Log) (*slog.Logger, error) {
	return a.loggerAt(cfg, logLevel(cfg.Level))
}

// quietLogger is for commands whose output says what matters: stderr gets a log
// only when --log-level asks for one.
func (a *app) quietLogger(cfg config.Log) (*slog.Logger, error) {
	shown := slog.LevelError + 1
	if a.flags.logLevel != "" {
		shown = logLevel(cfg.Level)
	}
	return a.loggerAt(cfg, shown)
}

func (a *app) loggerAt(cfg config.Log, shown slog.Level) (*slog.Logger, error) {
	var handler slog.Handler
	if cfg.Format == "text" || cfg.Format == "auto" && isTerminal(a.err) {
		handler = tint.NewTextHandler(a.err, &tint.Options{Level: shown, NoColor: !a.coloursOn(a.err), TimeFormat: "15:04:05.000", ReplaceAttr: safeAttr})
	} else {
		handler = slog.NewJSONHandler(a.err, &slog.HandlerOptions{Level: shown})
	}
	if a.greets {
		handler = afterGreeting{handler, &a.greeted}
	}
	if cfg.File == "" {
		return slog.New(handler), nil
	}
	file, err := os.OpenFile(cfg.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, &exitError{code: exitInvalid, text: "log.file: " + err.Error(), hint: "exthost config show --origin"}
	}
	a.logFile = file
	return slog.New(slog.NewMultiHandler(handler, slog.NewJSONHandler(file, &slog.HandlerOptions{Level: logLevel(cfg.Level)}))), nil
}

// safeAttr keeps what extensions say from the terminal's interpreter.
func safeAttr(_ []string, attr slog.Attr) slog.Attr {
	if attr.Value.Kind() == slog.KindString {
		attr.Value = slog.StringValue(safe(attr.Value.String()))
	}
	return attr
}

func logLevel(name string) slog.Level {
	switch name {
	case "trace":
		return slog.LevelDebug - 4
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// afterGreeting is a handler that is silent until the greeting, which says better
// what happened during the start, has been printed.
type afterGreeting struct {
	slog.Handler
	greeted *atomic.Bool
}

func (h afterGreeting) Enabled(ctx context.Context, level slog.Level) bool {
	return h.greeted.Load() && h.Handler.Enabled(ctx, level)
}

func (h afterGreeting) WithAttrs(attrs []slog.Attr) slog.Handler {
	return afterGreeting{h.Handler.WithAttrs(attrs), h.greeted}
}

func (h afterGreeting) WithGroup(name string) slog.Handler {
	return afterGreeting{h.Handler.WithGroup(name), h.greeted}
}

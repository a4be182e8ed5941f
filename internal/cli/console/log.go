package console

import (
	"log/slog"

	"github.com/lmittmann/tint"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/observe/journal"
)

// Silent is a log level above every record.
const Silent = slog.LevelError + 1

// Logger returns a logger that writes records of level shown or above to stderr, and those of the configured level or
// above to the configured file.
func (c *Console) Logger(cfg config.Log, shown slog.Leveler) (*slog.Logger, error) {
	var handler slog.Handler
	if cfg.Format == "text" || cfg.Format == "auto" && IsTerminal(c.Err) {
		handler = tint.NewTextHandler(hanging{c.Err, Width},
			&tint.Options{
				Level:       shown,
				NoColor:     !c.ColoursOn(c.Err),
				TimeFormat:  "15:04:05.000",
				ReplaceAttr: safeAttr,
			})
	} else {
		handler = slog.NewJSONHandler(c.Err, &slog.HandlerOptions{Level: shown, ReplaceAttr: journal.InMilliseconds})
	}
	if cfg.File == "" {
		return slog.New(handler), nil
	}
	path, err := file.Below(cfg.Within, cfg.File)
	var rotating *file.Rotating
	if err == nil {
		rotating, err = file.OpenRotating(path, int64(cfg.MaxSize), cfg.Keep)
	}
	if err != nil {
		return nil, &Error{Code: ExitInvalid, Text: "log.file: " + err.Error(), Hint: "exthost config show --origin"}
	}
	c.logFile = rotating
	return slog.New(slog.NewMultiHandler(handler,
		slog.NewJSONHandler(rotating,
			&slog.HandlerOptions{Level: Level(cfg.Level), ReplaceAttr: journal.InMilliseconds}))), nil
}

// QuietLogger returns a logger for commands whose output already states the result: it writes to stderr only if
// --log-level is set.
func (c *Console) QuietLogger(cfg config.Log) (*slog.Logger, error) {
	if c.LogLevel == "" {
		return c.Logger(cfg, Silent)
	}
	return c.Logger(cfg, Level(cfg.Level))
}

// safeAttr escapes text of extensions for a terminal.
func safeAttr(_ []string, attr slog.Attr) slog.Attr {
	if attr.Value.Kind() == slog.KindString {
		attr.Value = slog.StringValue(Safe(attr.Value.String()))
	}
	return attr
}

// Level returns the level for a name in [LogLevels].
func Level(name string) slog.Level {
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

//go:build !slim

package traces

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/redact"
	"github.com/exthost/exthost/status"
)

// maxProblem is the length of a reported error, in bytes: a collector may answer with a page.
const maxProblem = 240

// maxWaiting is the limit for OTEL_BSP_MAX_QUEUE_SIZE, in spans of some KiB each.
const maxWaiting = 1 << 16

// maxDelay is the limit for OTEL_BSP_SCHEDULE_DELAY, in milliseconds.
const maxDelay = 3_600_000

// sender passes spans to the batch processor of the SDK and counts them. The SDK drops spans without notice when its
// queue is full, so sender bounds the queue itself, at the same length.
type sender struct {
	sdktrace.SpanProcessor
	exporter sdktrace.SpanExporter
	endpoint string
	log      *slog.Logger
	secrets  redact.Redactor // masks the values of headers

	limit                 int64
	waiting               atomic.Int64
	sent, dropped, failed atomic.Int64

	ending  atomic.Bool        // set by Shutdown
	ended   chan struct{}      // closed when the batches have ended
	sending context.Context    // canceled to give up sending
	stop    context.CancelFunc // cancels sending

	mu      sync.Mutex // guards the fields below
	problem string
	next    string // what to do about problem
}

func newSender(exporter sdktrace.SpanExporter, o *Options, endpoint string) *sender {
	s := &sender{exporter: exporter, endpoint: endpoint, log: o.Log, ended: make(chan struct{})}
	s.sending, s.stop = context.WithCancel(context.Background())
	limit := numberIn(o.Environ, "OTEL_BSP_MAX_QUEUE_SIZE", sdktrace.DefaultMaxQueueSize, maxWaiting)
	s.limit = int64(limit)
	s.secrets.SetSecrets(o.headerValues())
	s.SpanProcessor = sdktrace.NewBatchSpanProcessor(s, sdktrace.WithMaxQueueSize(limit),
		sdktrace.WithMaxExportBatchSize(numberIn(o.Environ, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
			min(sdktrace.DefaultMaxExportBatchSize, limit), limit)),
		sdktrace.WithBatchTimeout(time.Duration(numberIn(o.Environ, "OTEL_BSP_SCHEDULE_DELAY",
			sdktrace.DefaultScheduleDelay, maxDelay))*time.Millisecond))
	return s
}

// numberIn returns the number from 1 to most in a variable, or the default. The SDK itself panics at a negative size,
// and busy-loops with a delay of 0.
func numberIn(environ map[string]string, name string, or, most int) int {
	if n, err := strconv.Atoi(environ[name]); err == nil && n > 0 {
		return min(n, most)
	}
	return or
}

// headerValues returns the header values to mask, and their words: for "Bearer x" also x.
func (o *Options) headerValues() (values []string) {
	hide := func(value string) {
		values = append(values, value)
		for _, word := range strings.Fields(value) {
			if !strings.EqualFold(word, "Bearer") {
				values = append(values, word)
			}
		}
	}
	for _, value := range o.Settings.Headers {
		hide(value)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		for pair := range strings.SplitSeq(o.Environ[name], ",") {
			_, value, _ := strings.Cut(pair, "=")
			hide(value)
			if plain, err := url.PathUnescape(value); err == nil {
				hide(plain)
			}
		}
	}
	return values
}

// OnEnd implements [sdktrace.SpanProcessor]. It never blocks.
func (s *sender) OnEnd(span sdktrace.ReadOnlySpan) {
	if !span.SpanContext().IsSampled() {
		return
	}
	if s.waiting.Add(1) > s.limit {
		s.waiting.Add(-1)
		s.dropped.Add(1)
		return
	}
	s.SpanProcessor.OnEnd(span)
}

// ExportSpans implements [sdktrace.SpanExporter] for the batch processor.
func (s *sender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unhook := context.AfterFunc(s.sending, cancel)
	defer unhook()
	if s.sending.Err() != nil {
		cancel() // AfterFunc cancels in another goroutine, perhaps after the exporter has connected
	}
	err := s.exporter.ExportSpans(ctx, spans)
	n := int64(len(spans))
	s.waiting.Add(-n)
	if err == nil {
		s.sent.Add(n)
	} else {
		s.failed.Add(n)
	}
	s.note(err)
	return nil // note reports it
}

// Shutdown implements both [sdktrace.SpanProcessor] and [sdktrace.SpanExporter]. The first call shuts down the batch
// processor, which then calls Shutdown again as that of its exporter.
func (s *sender) Shutdown(ctx context.Context) error {
	if s.ending.CompareAndSwap(false, true) {
		return s.SpanProcessor.Shutdown(ctx)
	}
	defer close(s.ended)
	return s.exporter.Shutdown(ctx)
}

// note records why spans could not be sent, and logs the first failure and the recovery.
func (s *sender) note(err error) {
	problem, next := "", ""
	if err != nil {
		next = advice(s.endpoint, err)
		problem = display.Cut(strings.Join(strings.Fields(display.Visible(s.secrets.String(err.Error()))), " "),
			maxProblem)
	}
	s.mu.Lock()
	was := s.problem
	s.problem, s.next = problem, next
	s.mu.Unlock()
	switch {
	case problem != "" && was == "":
		s.log.Warn("traces cannot be sent; until they can, this is not said again", "to", s.endpoint, "reason", problem,
			"next", next)
	case problem == "" && was != "":
		s.log.Info("traces are sent again", "to", s.endpoint, "lost", s.failed.Load()+s.dropped.Load())
	}
}

func (s *sender) report() *status.Tracing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &status.Tracing{
		Endpoint: s.endpoint,
		Sent:     s.sent.Load(),
		Dropped:  s.dropped.Load(),
		Failed:   s.failed.Load(),
		Problem:  s.problem,
		Next:     s.next,
	}
}

// end gives up sending and logs how many spans were lost.
func (s *sender) end() {
	s.stop()
	<-s.ended
	if lost := s.waiting.Load() + s.failed.Load() + s.dropped.Load(); lost > 0 {
		s.log.Warn(fmt.Sprintf("%d spans of this host were not sent", lost), "to", s.endpoint)
	}
}

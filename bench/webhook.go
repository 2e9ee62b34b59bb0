package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const phaseWebhook = "webhook"

// webhookContenders are the contenders with webhooks.
var webhookContenders = []string{productName, productPGName}

// measuresWebhooks reports whether the run measures webhooks with a contender.
func (b *bench) measuresWebhooks(contender string) bool {
	return slices.Contains(b.phases, phaseWebhook) && slices.Contains(webhookContenders, contender) &&
		(b.only == nil || slices.Contains(b.only, contender))
}

// webhooks measures creates without a webhook and with one, whose receiver is the floor. The
// two runs of a round follow each other, in an order that changes from round to round.
func (b *bench) webhooks(ctx context.Context) (err error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	receiver, err := start(ctx, place{}, nil, b.program(floorName), "-listen", address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, receiver.stop(syscall.SIGTERM)) }()
	if err := waitFor(ctx, "receiver", receiver.exited, func() bool { return accepts(address) }); err != nil {
		return err
	}
	for round := b.round; round < b.round+b.phaseRounds(); round++ {
		for _, contender := range webhookContenders {
			if !b.measuresWebhooks(contender) {
				continue
			}
			for _, connections := range b.connections {
				urls := []string{"", "http://" + address + "/events"}
				if round%2 == 1 {
					slices.Reverse(urls)
				}
				for _, url := range urls {
					if err := b.load(ctx, loadSpec{
						phase: phaseWebhook, set: setShared, round: round, contender: contender, connections: connections,
						order: orderRandom, time: b.duration, webhook: url,
					}); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// webhookSecret signs the deliveries of the benchmark.
const webhookSecret = "whsec_bWFkZS1mb3ItbWVhc3VyaW5nLW1hZGUtZm9yLW1lYXN1cmluZw==" //nolint:gosec // it protects nothing

// webhookFlags returns the flags of a server that sends events, or none.
func (s *server) webhookFlags() ([]string, error) {
	if s.webhook == "" {
		return nil, nil
	}
	secret := filepath.Join(s.dir, "webhook.secret")
	return []string{
		"--webhook-url", s.webhook, "--webhook-secret-file", secret, "--webhook-allow-private",
	}, os.WriteFile(secret, []byte(webhookSecret), 0o600)
}

// delivered returns the number of events that the server has delivered since its start. None is an error.
func (s *server) delivered(ctx context.Context) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		text := lines.Text()
		if !strings.HasPrefix(text, "plantstore_webhook_attempts_total{") || !strings.Contains(text, `result="delivered"`) {
			continue
		}
		n, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64)
		if err == nil && n == 0 {
			err = errors.New("the server has delivered no event")
		}
		return int64(n), err
	}
	return 0, fmt.Errorf("the metrics have no number of deliveries: status %d", response.StatusCode)
}

// withWebhook returns the runs of the phase with or without a webhook.
func (r *results) withWebhook(contender string, connections int64, on bool) loads {
	return r.phase(phaseWebhook).where(func(l loadRun) bool {
		return l.Contender == contender && l.Connections == connections && l.Webhook == on
	})
}

func (r *results) webhookTargets(t *targets) {
	for _, contender := range webhookContenders {
		for _, connections := range []int64{64, 256} {
			t.addRatio(fmt.Sprintf("rate of %s with a webhook ÷ without, %d connections", contender, connections), true, 0.9,
				r.withWebhook(contender, connections, true).ratios(r.withWebhook(contender, connections, false), rate))
		}
	}
}

func (r *results) webhookTable() string {
	all := r.phase(phaseWebhook)
	if len(all) == 0 {
		return notMeasured
	}
	t := &table{}
	t.row("store", "connections", "webhook", "requests a second", "÷ without", "server µs/request", "database µs/request",
		"p50 ms", "p99 ms")
	for _, contender := range webhookContenders {
		for _, connections := range all.distinct(func(l loadRun) int64 { return l.Connections }) {
			without := r.withWebhook(contender, connections, false)
			for _, on := range []bool{false, true} {
				runs := r.withWebhook(contender, connections, on)
				if len(runs) == 0 {
					continue
				}
				database, name := "–", "off"
				if contender == productPGName {
					database = runs.spread(dbCPU).medianText(oneDecimal)
				}
				if on {
					name = "on"
				}
				t.row(contenderNamed(contender).title, fmt.Sprint(connections), name, runs.spread(rate).text(whole),
					spreadOf(runs.ratios(without, rate)).text(twoDecimals), runs.spread(serverCPU).medianText(oneDecimal), database,
					runs.spread(p50).medianText(millis), runs.spread(p99).text(millis))
			}
		}
	}
	return t.String()
}

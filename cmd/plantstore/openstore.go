package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/config"
	"plantstore/internal/serve"
	"plantstore/internal/store"
	"plantstore/internal/terminal"
)

// How commands open a store.
var (
	readOnly = serve.EngineOptions{ReadOnly: true}
	existing = serve.EngineOptions{MustExist: true}
)

// creating opens a store for changes, and creates it with --create.
func creating(create bool) serve.EngineOptions { return serve.EngineOptions{MustExist: !create} }

// openCommand opens the store for a command that may run beside a server.
func (p *program) openCommand(ctx context.Context, s *config.Settings, o serve.EngineOptions) (serve.Engine, error) {
	o.Log = p.commandLog()
	return serve.OpenEngine(ctx, s, o)
}

// commandLog returns the logger for an engine's warnings to a command's user.
func (p *program) commandLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// withSettings loads the settings of a command and runs do. After an interruption it returns terminal.ErrInterrupted.
func (p *program) withSettings(cmd *cobra.Command, do func(context.Context) error) error {
	ctx := cmd.Context()
	err := p.server.Check(cmd.Flags())
	if p.server.URL != "" { // the server has settings of its own
		p.env.SettingsFile = ""
	}
	if err == nil {
		err = p.settings.Load(ctx, p.env, cmd.Flags())
	}
	if err == nil {
		err = do(ctx)
	}
	return interruption(ctx, err)
}

// interruption returns terminal.ErrInterrupted for the error of a call that a signal ended, and any other error as it
// is.
func interruption(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return terminal.ErrInterrupted
	}
	return err
}

// withStore runs do on the store that the settings name, and closes the store.
func (p *program) withStore(
	cmd *cobra.Command, o serve.EngineOptions, do func(context.Context, serve.Engine) error,
) error {
	return p.withSettings(cmd, func(ctx context.Context) error { return p.onStore(cmd, o, do) })
}

// onStore is withStore for settings that are loaded.
func (p *program) onStore(
	cmd *cobra.Command, o serve.EngineOptions, do func(context.Context, serve.Engine) error,
) (err error) {
	ctx := cmd.Context()
	engine, err := p.openCommand(ctx, &p.settings, o)
	if errors.Is(err, store.ErrNoStore) && cmd.Flags().Lookup(createFlag) != nil {
		return fmt.Errorf("%w, or add --%s", err, createFlag)
	}
	if err == nil {
		defer func() { err = errors.Join(err, engine.Close()) }()
		err = do(ctx, engine)
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, store.ErrBusy)) {
		return terminal.ErrInterrupted // while it opened the store or waited for the write ticket
	}
	return err
}

const createFlag = "create"

// bindCreate adds the flag that lets a command create the store. Without the flag a mistyped --db would create a second
// store.
func bindCreate(f *pflag.FlagSet, create *bool) {
	f.BoolVar(create, createFlag, false, "create the store if it does not exist")
}

package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"plantstore/internal/config"
	"plantstore/internal/dump"
)

// importFlags are the flags that say how import reads a file.
type importFlags struct {
	format, encoding string
	columns, idFrom  []string
	numberFrom       int64
	allowEmptyNames  bool
}

const numberFromFlag = "number-from"

func (i *importFlags) bind(f *pflag.FlagSet) {
	f.StringVar(&i.format, "format", "", "`format` of the input: csv, jsonl or json; without it, import finds it out")
	f.StringVar(&i.encoding, "encoding", "",
		"`encoding` of a file that is not UTF-8 or UTF-16: "+strings.Join(dump.Encodings(), ", "))
	f.StringArrayVar(&i.columns, "column", nil,
		"`column` of the file for id, name or tag, such as name=\"Scientific name\"; tag= for no tags; repeatable")
	f.StringSliceVar(&i.idFrom, "id-from", nil, "make the id of each plant from the text in these `columns`")
	f.Int64Var(&i.numberFrom, numberFromFlag, 0, "number the rows, starting with this `id`")
	f.BoolVar(&i.allowEmptyNames, "allow-empty-names", false, "store rows of a table whose name is empty")
}

// options returns the options for a file with a name.
func (i *importFlags) options(f *pflag.FlagSet, path string) (o dump.Options, err error) {
	o = dump.Options{Encoding: i.encoding, IDFrom: i.idFrom, AllowEmptyNames: i.allowEmptyNames}
	if f.Changed(numberFromFlag) {
		o.NumberFrom = &i.numberFrom
	}
	if o.Format, _, _ = dump.DetectPath(path); i.format != "" {
		if o.Format, err = dump.ParseFormat(i.format); err != nil {
			return o, config.Usagef("format: %w", err)
		}
	}
	for _, column := range i.columns {
		if err := o.SetColumn(column); err != nil {
			return o, config.Usagef("%w", err)
		}
	}
	if err := o.Check(); err != nil {
		return o, config.Usagef("%w", err)
	}
	return o, nil
}

// adviseColumns sets the advice on how to import a file whose columns are not clear.
func (p *program) adviseColumns(refused *dump.HeaderError, dryRun bool) {
	advice := "The columns may be these:"
	likely := refused.Likely
	if likely.Columns["name"] == "" {
		advice = "Give the column with the names instead of COLUMN:"
		likely.Columns["name"] = "COLUMN"
	}
	flags := p.args
	for _, ours := range slices.Sorted(maps.Keys(likely.Columns)) {
		if theirs := likely.Columns[ours]; !strings.EqualFold(strings.TrimSpace(theirs), ours) {
			flags = append(flags, "--column", ours+"="+theirs)
		}
	}
	if len(likely.IDFrom) > 0 {
		flags = append(flags, "--id-from", strings.Join(likely.IDFrom, ","))
	}
	if likely.NumberFrom != nil {
		flags = append(flags, "--"+numberFromFlag, strconv.FormatInt(*likely.NumberFrom, 10))
	}
	if likely.Encoding != "" {
		flags = append(flags, "--encoding", likely.Encoding)
	}
	if !dryRun {
		flags = append(flags, "--dry-run")
	}
	p.advice = advice + "\n  plantstore"
	for _, flag := range flags {
		p.advice += " " + shellQuote(flag)
	}
}

// shellQuote returns an argument for a POSIX shell.
func shellQuote(arg string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
	if arg != "" && strings.Trim(arg, plain) == "" {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

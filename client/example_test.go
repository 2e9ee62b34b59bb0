//go:build !windows

package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"plantstore/client"
)

func Example() {
	base, token := "http://"+shared.address, shared.token // a running server's

	c, err := client.New(base, client.WithToken(token))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	p, err := c.Create(ctx, client.NewPlant{ID: 1001, Name: "Quercus robur", Tag: new("tree")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Name, *p.Tag, p.Replayed)

	p, err = c.Create(ctx, client.NewPlant{ID: 1001, Name: "Quercus robur", Tag: new("tree")})
	fmt.Println(p.Name, *p.Tag, p.Replayed, err)
	// Output:
	// Quercus robur tree false
	// Quercus robur tree true <nil>
}

func ExampleError() {
	c, err := client.New("http://"+shared.address, client.WithToken(shared.token))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for _, name := range []string{"Acer campestre", "Acer platanoides", "Acer\x00"} {
		_, err := c.Create(context.Background(), client.NewPlant{ID: 1002, Name: name})
		switch e, _ := errors.AsType[*client.Error](err); {
		case err == nil:
			fmt.Println("created")
		case errors.Is(err, client.ExistsWithDifferentName):
			fmt.Println("another plant has this id")
		case errors.Is(err, client.ErrUnknown):
			fmt.Println("create it again later")
		default:
			fmt.Println(int(e.Code), e.Message)
		}
	}
	// Output:
	// created
	// another plant has this id
	// 40023 name contains the character U+0000; remove it
}

func ExampleClient_CreateAll() {
	c, err := client.New("http://"+shared.address, client.WithToken(shared.token), client.WithConcurrency(16))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	plants := []client.NewPlant{
		{ID: 1003, Name: "Ginkgo biloba"},
		{ID: 1004, Name: "Salix alba", Tag: new("tree")},
		{ID: 1005, Name: "\x00"},
	}
	created := 0
	for o := range c.CreateAll(context.Background(), slices.Values(plants)) {
		if o.Err != nil {
			fmt.Println(o.NewPlant.ID, errors.Is(o.Err, client.NameHasNUL))
			continue
		}
		created++
	}
	fmt.Println(created, "created")
	// Unordered output:
	// 1005 true
	// 2 created
}

func ExampleWithFallback() {
	const stopped = "http://127.0.0.1:1" // no server listens there
	c, err := client.New(stopped, client.WithFallback("http://"+shared.address), client.WithToken(shared.token))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	p, err := c.Create(context.Background(), client.NewPlant{ID: 1007, Name: "Tilia cordata"})
	fmt.Println(p.Name, err)
	// Output:
	// Tilia cordata <nil>
}

func ExampleWithHeaders() {
	type key struct{}
	c, err := client.New("http://"+shared.address, client.WithToken(shared.token),
		client.WithHeaders(func(ctx context.Context, h http.Header) {
			if order, ok := ctx.Value(key{}).(string); ok {
				h.Set("X-Request-Id", order)
			}
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx := context.WithValue(context.Background(), key{}, "order-2217")
	_, err = c.Create(ctx, client.NewPlant{ID: 1006, Name: "\x00"})
	fmt.Println(err)
	// Output:
	// create plant 1006: name contains the character U+0000; remove it [error 40023, request order-2217]
}

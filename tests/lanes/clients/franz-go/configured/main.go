// Produces or consumes with settings that are not the defaults, until standard input ends; arguments: address, role
// (produce, consume), topic. What is set is written down in tests/lanes/configured.py.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	address, role, topic := os.Args[1], os.Args[2], os.Args[3]
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	common := []kgo.Opt{kgo.SeedBrokers(address), kgo.MetadataMaxAge(3 * time.Second),
		kgo.MetadataMinAge(time.Second)}
	if role == "produce" {
		produce(ctx, topic, append(common, kgo.ClientID("franz-maker"),
			kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.ProducerLinger(150*time.Millisecond),
			kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.ProduceRequestTimeout(12345*time.Millisecond)))
		return
	}
	client := must(kgo.NewClient(append(common, kgo.ClientID("franz-taker"),
		kgo.ConsumerGroup("g-franz"), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(11*time.Second), kgo.HeartbeatInterval(1300*time.Millisecond),
		kgo.RebalanceTimeout(45678*time.Millisecond), kgo.Balancers(kgo.RoundRobinBalancer(), kgo.RangeBalancer()),
		kgo.FetchMinBytes(10), kgo.FetchMaxWait(321*time.Millisecond), kgo.FetchMaxBytes(1234567),
		kgo.FetchMaxPartitionBytes(234567), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.Rack("r1"),
		kgo.AutoCommitInterval(1700*time.Millisecond), kgo.InstanceID("franz-instance"))...))
	for ctx.Err() == nil {
		client.PollFetches(ctx)
	}
	client.Close()
}

func produce(ctx context.Context, topic string, options []kgo.Opt) {
	client := must(kgo.NewClient(options...))
	for number := 0; ctx.Err() == nil; number++ {
		key, value := fmt.Appendf(nil, "franz-maker-%04d", number), fmt.Appendf(nil, "record %d", number)
		client.Produce(ctx, &kgo.Record{Topic: topic, Key: key, Value: value}, nil)
		if number < 60 {
			time.Sleep(40 * time.Millisecond)
		} else {
			time.Sleep(400 * time.Millisecond)
		}
	}
	client.Flush(context.Background())
	client.Close()
}

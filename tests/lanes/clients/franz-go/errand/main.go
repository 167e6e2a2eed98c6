// franz-go, through a proxy: the errand that ../../proxy/common.py describes. Arguments: errand, address, topic, count.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const members = 2

var (
	address, topic = os.Args[2], os.Args[3]
	count          = must(strconv.Atoi(os.Args[4]))
	ctx, _         = context.WithTimeout(context.Background(), 90*time.Second)
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func client(more ...kgo.Opt) *kgo.Client {
	return must(kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(address), kgo.ClientID("franz-go")}, more...)...))
}

func send(client *kgo.Client, kind string) {
	for number := range count {
		value := fmt.Appendf(nil, "%s %d", kind, number)
		client.Produce(ctx, &kgo.Record{Topic: topic, Key: value, Value: value}, nil)
	}
	check(client.Flush(ctx))
}

func produce() {
	plain := client()
	send(plain, "plain")
	plain.Close()
	transactional := client(kgo.TransactionalID(topic))
	for kind, end := range map[string]kgo.TransactionEndTry{"committed": kgo.TryCommit, "aborted": kgo.TryAbort} {
		check(transactional.BeginTransaction())
		send(transactional, kind)
		check(transactional.EndTransaction(ctx, end))
	}
	transactional.Close()
}

// group has two members consume until all values are there; both stay until look has been called.
func group(look func()) []string {
	var lock sync.Mutex
	seen, assigned := map[string]bool{}, map[int]bool{}
	left := make(chan struct{})
	var done sync.WaitGroup
	for member := range members {
		done.Add(1)
		go func() {
			defer done.Done()
			consumer := client(kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
				kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, all map[string][]int32) {
					lock.Lock()
					defer lock.Unlock()
					assigned[member] = assigned[member] || len(all[topic]) > 0
				}))
			for {
				select {
				case <-left:
					consumer.Close()
					return
				default:
				}
				polling, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				fetches := consumer.PollFetches(polling)
				cancel()
				lock.Lock()
				fetches.EachRecord(func(record *kgo.Record) { seen[string(record.Value)] = true })
				lock.Unlock()
			}
		}()
	}
	for ctx.Err() == nil {
		lock.Lock()
		complete := len(seen) == 2*count && assigned[0] && assigned[1]
		lock.Unlock()
		if complete {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	look()
	close(left)
	done.Wait()
	values := []string{}
	for value := range seen {
		values = append(values, value)
	}
	sort.Strings(values)
	return values
}

func main() {
	own := client()
	admin := kadm.NewClient(own)
	must(admin.CreateTopic(ctx, 3, 3, nil, topic))
	produce()
	brokers, size := [][]any{}, 0
	consumed := group(func() {
		for _, node := range must(admin.Metadata(ctx)).Brokers {
			brokers = append(brokers, []any{node.NodeID, node.Host, node.Port})
		}
		if _, there := must(admin.ListGroups(ctx))[topic]; !there {
			log.Fatal("the group is not listed")
		}
		size = len(must(admin.DescribeGroups(ctx, topic))[topic].Members)
	})
	must(admin.ListEndOffsets(ctx, topic))
	must(admin.FetchOffsets(ctx, topic))
	must(admin.DescribeTopicConfigs(ctx, topic))
	must(admin.DeleteTopics(ctx, topic))
	own.Close()
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"brokers": brokers, "members": size, "consumed": consumed}))
}

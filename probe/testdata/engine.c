/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up engine whose calls are probed: each line of its input is a thing to do. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#define CALL __attribute__((noinline, noipa))

struct batch { int n_tokens; };
struct tensor { int op, flags; struct tensor *src[2], *view; };
struct graph { int n_nodes; struct tensor **nodes; unsigned long uid; };

CALL void step_begin(void *ctx, struct batch *b) { asm volatile("" :: "r"(ctx), "r"(b) : "memory"); }
CALL void step_end(void) { asm volatile("" ::: "memory"); }
CALL void op_begin(void *params, struct tensor *t) { asm volatile("" :: "r"(params), "r"(t) : "memory"); }
CALL void graph_begin(struct graph *g) { asm volatile("" :: "r"(g) : "memory"); }

static struct batch one = {1}, many = {32};
static struct tensor tensors[4];
static int params[2];
static sem_t begun, over;

static void *other(void *arg)
{
	step_begin(&many, &many);
	sem_post(&begun);
	sem_wait(&over);
	step_end();
	return arg;
}

static void *loop(void *arg)
{
	struct tensor *nodes[] = {tensors};
	struct graph g = {1, nodes, 7};
	char line[64];
	pthread_t t;

	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "phases\n")) {
			/* a step of one token, and one of many beside it */
			sem_init(&begun, 0, 0);
			sem_init(&over, 0, 0);
			step_begin(&one, &one);
			pthread_create(&t, 0, other, 0);
			sem_wait(&begun);
			op_begin(params, &tensors[0]);
			sem_post(&over);
			pthread_join(t, 0);
			op_begin(params, &tensors[1]);
			step_end();
			step_begin(&many, &many);
			op_begin(params, &tensors[2]);
			step_end();
			op_begin(params, &tensors[3]);
		} else if (!strcmp(line, "graph\n")) {
			graph_begin(&g);
		} else if (!strcmp(line, "change\n")) {
			tensors[0].op++;
		} else if (!strcmp(line, "leave\n")) {
			/* another thread goes on, the main one ends */
			if (!arg) {
				puts("done");
				fflush(stdout);
				pthread_create(&t, 0, loop, &one);
				pthread_exit(0);
			}
		}
		puts("done");
		fflush(stdout);
	}
	return arg;
}

int main(void)
{
	loop(0);
	return 0;
}

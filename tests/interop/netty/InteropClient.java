/* grpc-java over Netty against grpc_interop_server. Prints "ok NAME" or "FAILED NAME: why" for each case.
 * usage: InteropClient PORT */
import io.grpc.*;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.*;
import java.io.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;

public class InteropClient {
  static final int LARGE = 20_000_000, STREAMS = 1000;

  static final MethodDescriptor.Marshaller<byte[]> BYTES = new MethodDescriptor.Marshaller<>() {
    public InputStream stream(byte[] value) { return new ByteArrayInputStream(value); }
    public byte[] parse(InputStream stream) {
      try {
        return stream.readAllBytes();
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  };

  static MethodDescriptor<byte[], byte[]> method(String name, MethodDescriptor.MethodType type) {
    return MethodDescriptor.<byte[], byte[]>newBuilder()
        .setFullMethodName("grpc.testing.TestService/" + name).setType(type).setRequestMarshaller(BYTES).setResponseMarshaller(BYTES).build();
  }

  static final MethodDescriptor<byte[], byte[]> UNARY = method("UnaryCall", MethodDescriptor.MethodType.UNARY),
      OUTPUT = method("StreamingOutputCall", MethodDescriptor.MethodType.SERVER_STREAMING),
      INPUT = method("StreamingInputCall", MethodDescriptor.MethodType.CLIENT_STREAMING),
      DUPLEX = method("FullDuplexCall", MethodDescriptor.MethodType.BIDI_STREAMING);

  /* ---- messages of grpc.testing ---- */

  static void varint(ByteArrayOutputStream out, long value) {
    for (; value > 127; value >>>= 7) out.write((int) (value & 127 | 128));
    out.write((int) value);
  }

  static byte[] number(int field, long value) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    varint(out, (long) field << 3);
    varint(out, value);
    return out.toByteArray();
  }

  static byte[] bytes(int field, byte[] value) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    varint(out, (long) field << 3 | 2);
    varint(out, value.length);
    out.writeBytes(value);
    return out.toByteArray();
  }

  static byte[] join(byte[]... parts) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    for (byte[] part : parts) out.writeBytes(part);
    return out.toByteArray();
  }

  /* One of a StreamingOutputCallRequest's responses. */
  static byte[] response(int size, int intervalUs) {
    return bytes(2, intervalUs == 0 ? number(1, size) : join(number(1, size), number(2, intervalUs)));
  }

  /* ---- cases ---- */

  interface Case { void run(ManagedChannel channel) throws Exception; }

  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError(what);
  }

  static void deadline(ManagedChannel channel) {
    for (int i = 0; i < 50; i++) {
      try {
        Iterator<byte[]> replies = ClientCalls.blockingServerStreamingCall(
            channel, OUTPUT, CallOptions.DEFAULT.withDeadlineAfter(20 + i % 7 * 3, TimeUnit.MILLISECONDS),
            join(response(10, 0), response(10, 5_000_000)));
        while (replies.hasNext()) replies.next();
        check(false, "it ended");
      } catch (StatusRuntimeException e) {
        check(e.getStatus().getCode() == Status.Code.DEADLINE_EXCEEDED, e.getStatus().toString());
      }
    }
  }

  /* In the middle of a stream; the channel goes on. */
  static void cancel(ManagedChannel channel) throws Exception {
    for (int i = 0; i < 50; i++) {
      ClientCall<byte[], byte[]> call = channel.newCall(OUTPUT, CallOptions.DEFAULT);
      CompletableFuture<Status> end = new CompletableFuture<>();
      CountDownLatch first = new CountDownLatch(1);
      call.start(new ClientCall.Listener<byte[]>() {
        public void onMessage(byte[] message) { first.countDown(); call.request(1); }
        public void onClose(Status status, Metadata trailers) { end.complete(status); }
      }, new Metadata());
      call.sendMessage(join(Collections.nCopies(200, response(100_000, 0)).toArray(new byte[0][])));
      call.halfClose();
      call.request(1);
      check(first.await(20, TimeUnit.SECONDS), "no first message");
      call.cancel("enough", null);
      check(end.get(20, TimeUnit.SECONDS).getCode() == Status.Code.CANCELLED, "not cancelled");
    }
    Iterator<byte[]> replies = ClientCalls.blockingServerStreamingCall(channel, OUTPUT, CallOptions.DEFAULT, response(10, 0));
    replies.next();
    check(!replies.hasNext(), "more than one");
  }

  static void large(ManagedChannel channel) {
    byte[] reply = ClientCalls.blockingUnaryCall(channel, UNARY, CallOptions.DEFAULT,
        join(number(2, LARGE), bytes(3, bytes(2, new byte[LARGE]))));
    check(reply.length > LARGE && reply.length < LARGE + 20, "a reply of " + reply.length + " bytes");
    byte[] zipped = ClientCalls.blockingUnaryCall(channel, UNARY, CallOptions.DEFAULT.withCompression("gzip"),
        join(number(2, LARGE), bytes(3, bytes(2, new byte[LARGE]))));
    check(zipped.length == reply.length, "a zipped reply of " + zipped.length + " bytes");
    try {
      ClientCalls.blockingUnaryCall(channel, UNARY, CallOptions.DEFAULT, new byte[130 << 20]);
      check(false, "a message over the limit was taken");
    } catch (StatusRuntimeException e) {
      check(e.getStatus().getCode() == Status.Code.RESOURCE_EXHAUSTED, e.getStatus().toString());
    }
  }

  /* A thousand conversations at once on one connection: each says so, and hears it, three times. */
  static void streams(ManagedChannel channel) throws Exception {
    CountDownLatch open = new CountDownLatch(STREAMS), done = new CountDownLatch(STREAMS);
    AtomicInteger messages = new AtomicInteger(), errors = new AtomicInteger();
    List<StreamObserver<byte[]>> calls = new ArrayList<>();
    for (int i = 0; i < STREAMS; i++) {
      calls.add(ClientCalls.asyncBidiStreamingCall(channel.newCall(DUPLEX, CallOptions.DEFAULT), new StreamObserver<byte[]>() {
        int heard;
        public void onNext(byte[] message) {
          messages.incrementAndGet();
          if (++heard == 1) open.countDown();
        }
        public void onError(Throwable e) { errors.incrementAndGet(); open.countDown(); done.countDown(); }
        public void onCompleted() { done.countDown(); }
      }));
    }
    for (StreamObserver<byte[]> call : calls) call.onNext(response(31, 0));
    check(open.await(60, TimeUnit.SECONDS), "only " + messages + " were answered while all were open");
    for (int round = 0; round < 2; round++)
      for (StreamObserver<byte[]> call : calls) call.onNext(response(1000, 0));
    for (StreamObserver<byte[]> call : calls) call.onCompleted();
    check(done.await(60, TimeUnit.SECONDS) && errors.get() == 0, errors + " failed");
    check(messages.get() == 3 * STREAMS, messages + " messages");
  }

  static void upload(ManagedChannel channel) throws Exception {
    CompletableFuture<byte[]> reply = new CompletableFuture<>();
    StreamObserver<byte[]> call = ClientCalls.asyncClientStreamingCall(channel.newCall(INPUT, CallOptions.DEFAULT), new StreamObserver<byte[]>() {
      public void onNext(byte[] message) { reply.complete(message); }
      public void onError(Throwable e) { reply.completeExceptionally(e); }
      public void onCompleted() {}
    });
    for (int i = 0; i < 20; i++) call.onNext(bytes(1, bytes(2, new byte[1_000_000])));
    call.onCompleted();
    check(Arrays.equals(reply.get(60, TimeUnit.SECONDS), number(1, 20_000_000)), "another size");
  }

  public static void main(String[] arguments) throws Exception {
    ManagedChannel channel = NettyChannelBuilder.forAddress("127.0.0.1", Integer.parseInt(arguments[0])).usePlaintext()
        .maxInboundMessageSize(Integer.MAX_VALUE).build();
    Map<String, Case> cases = new LinkedHashMap<>();
    cases.put("deadline", InteropClient::deadline);
    cases.put("cancel", InteropClient::cancel);
    cases.put("large", InteropClient::large);
    cases.put("upload", InteropClient::upload);
    cases.put("streams", InteropClient::streams);
    for (Map.Entry<String, Case> one : cases.entrySet()) {
      try {
        one.getValue().run(channel);
        System.out.println("ok " + one.getKey());
      } catch (Throwable e) {
        System.out.println("FAILED " + one.getKey() + ": " + e);
      }
    }
    channel.shutdownNow().awaitTermination(10, TimeUnit.SECONDS);
    System.exit(0);
  }
}

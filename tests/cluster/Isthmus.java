import io.substrait.isthmus.ImmutableFeatureBoard;
import io.substrait.isthmus.SqlToSubstrait;
import java.nio.file.*;
import java.util.*;
import org.apache.calcite.avatica.util.Casing;

/** SQL as Substrait by isthmus. Arguments: a file of CREATE TABLE statements (a line each), a directory of queries (*.sql), one for plans. */
public class Isthmus {
  public static void main(String[] arguments) throws Exception {
    var features = ImmutableFeatureBoard.builder().unquotedCasing(Casing.TO_LOWER).build();
    List<String> tables = Files.readAllLines(Path.of(arguments[0]));
    try (var queries = Files.list(Path.of(arguments[1]))) {
      for (Path query : (Iterable<Path>) queries.sorted()::iterator) {
        String name = query.getFileName().toString().replace(".sql", "");
        try {
          Files.write(Path.of(arguments[2], name), new SqlToSubstrait(features).execute(Files.readString(query), tables).toByteArray());
        } catch (Throwable error) {
          System.out.println(name + ": " + String.valueOf(error).split("\n")[0]);
        }
      }
    }
  }
}
